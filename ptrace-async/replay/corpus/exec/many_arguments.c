// Ten thousand arguments, and a large environment.
#include "corpus.h"

int main(int argc, char **argv)
{
    if (argc > 1) {
        printf("%d arguments, the last is %s, %zu\n", argc, argv[argc - 1], strlen(getenv("LARGE")));
        return argc == 10000 ? 0 : 1;
    }
    static char *args[10001], large[100000] = "LARGE=";
    for (int i = 0; i < 10000; i++) {
        args[i] = malloc(16);
        sprintf(args[i], "argument %d", i);
    }
    memset(large + 6, 'x', sizeof large - 7);
    execve("/proc/self/exe", args, (char *[]){large, NULL});
    return 2;
}
