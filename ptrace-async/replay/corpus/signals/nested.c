// A handler that is interrupted by another one, five deep.
#include "corpus.h"

static volatile int depth, deepest;

static void note(int signal)
{
    int local;
    depth++;
    if (depth > deepest)
        deepest = depth;
    printf("depth %d, stack %p\n", depth, (void *)&local);
    if (depth < 5)
        raise(signal + 1);
    depth--;
}

int main(void)
{
    for (int i = 0; i < 5; i++)
        handle(SIGRTMIN + i, note, 0);
    raise(SIGRTMIN);
    CHECK(deepest == 5 && depth == 0);
}
