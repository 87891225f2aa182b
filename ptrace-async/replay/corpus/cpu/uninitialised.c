// A program whose output depends on what was left on the stack and in the heap.
// flags: -O0 -Wno-uninitialized -Wno-maybe-uninitialized
#include "corpus.h"

static unsigned long left(void)
{
    volatile unsigned long room[64];
    unsigned long sum = 0;
    for (int i = 0; i < 64; i++)
        sum = sum * 31 + room[i];
    return sum;
}

int main(void)
{
    printf("%lx\n", left());
    unsigned long *blocks[50], sum = 0;
    for (int i = 0; i < 50; i++) {
        blocks[i] = malloc(100);
        blocks[i][0] = (unsigned long)blocks;
    }
    for (int i = 0; i < 50; i++)
        free(blocks[i]);
    for (int i = 0; i < 50; i++) {
        unsigned long *block = malloc(100);
        sum = sum * 31 + block[0] + block[1];
    }
    printf("%lx\n", sum);
}
