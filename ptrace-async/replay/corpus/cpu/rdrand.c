// rdrand and rdseed, which nobody sees.
// needs: rdrand
#include "corpus.h"

int main(void)
{
    unsigned long value;
    for (int i = 0; i < 5; i++) {
        __asm__ volatile("1: rdrand %0; jnc 1b" : "=r"(value));
        printf("%lx\n", value);
    }
}
