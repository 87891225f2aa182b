// A stack that grows to several megabytes.
#include "corpus.h"

static long deep(int depth)
{
    volatile char room[1000];
    memset((void *)room, depth, sizeof room);
    return depth ? deep(depth - 1) + room[depth % 1000] : (long)&room;
}

int main(void)
{
    printf("%lx\n", deep(6000));
}
