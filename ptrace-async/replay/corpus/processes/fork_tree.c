// A tree of processes, four deep.
#include "corpus.h"

static int grow(int depth)
{
    int sum = 1;
    pid_t children[2];
    if (!depth)
        return 1;
    for (int i = 0; i < 2; i++)
        if (!(children[i] = fork()))
            _exit(grow(depth - 1));
    for (int i = 0; i < 2; i++)
        sum += reap(children[i]);
    printf("%d at depth %d: %d\n", getpid(), depth, sum);
    return sum;
}

int main(void)
{
    CHECK(grow(4) == 31);
}
