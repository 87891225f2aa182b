// The program break up and down.
#include "corpus.h"

int main(void)
{
    char *start = sbrk(0);
    for (int i = 1; i < 50; i++) {
        CHECK(sbrk(i * 1000) != (void *)-1);
        char *end = sbrk(0);
        end[-1] = i;
        if (i % 5 == 0)
            CHECK(brk(start + 500) == 0);
    }
    printf("%p to %p\n", (void *)start, sbrk(0));
    CHECK(brk(start) == 0);
    CHECK(sbrk(4096) == start);
    for (int i = 0; i < 4096; i++)
        start[i] = i;
}
