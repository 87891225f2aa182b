// cpuid leaf 1 tells the processor that the program runs on.
#include "corpus.h"
#include <cpuid.h>

int main(void)
{
    unsigned a, b, c, d;
    for (int i = 0; i < 20; i++) {
        __cpuid(1, a, b, c, d);
        printf("%u ", b >> 24);
        sched_yield();
    }
    putchar('\n');
}
