// Ten executions one after the other, each with another address of its stack.
#include "corpus.h"

int main(int argc, char **argv)
{
    int depth = argc > 1 ? atoi(argv[1]) : 0;
    char next[16];
    printf("depth %d, environment at %p\n", depth, (void *)getenv("PATH"));
    if (depth == 10)
        return 0;
    sprintf(next, "%d", depth + 1);
    execl("/proc/self/exe", argv[0], next, NULL);
    return 1;
}
