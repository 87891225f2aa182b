// Allocations of many sizes, freed in another order.
#include "corpus.h"

int main(void)
{
    void *blocks[500];
    unsigned state = 1;
    for (int i = 0; i < 500; i++) {
        state = state * 1664525 + 1013904223;
        size_t size = 1UL << (state >> 27) >> 9;
        blocks[i] = malloc(size + 1);
        memset(blocks[i], i, size + 1);
    }
    for (int i = 0; i < 500; i += 2)
        free(blocks[i * 7 % 500]), blocks[i * 7 % 500] = NULL;
    for (int i = 1; i < 500; i += 50)
        printf("%p\n", blocks[i]);
}
