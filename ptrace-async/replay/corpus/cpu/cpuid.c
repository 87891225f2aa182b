// cpuid, and xgetbv where it says so.
#include "corpus.h"
#include <cpuid.h>

int main(void)
{
    unsigned a, b, c, d;
    for (unsigned leaf = 0; leaf < 8; leaf++) {
        if (leaf == 1)
            continue;
        __cpuid_count(leaf, 0, a, b, c, d);
        printf("%u: %x %x %x %x\n", leaf, a, b, c, d);
    }
    __cpuid(1, a, b, c, d);
    if (c & bit_OSXSAVE) {
        __asm__("xgetbv" : "=a"(a), "=d"(d) : "c"(0));
        printf("xgetbv %x\n", a);
    }
}
