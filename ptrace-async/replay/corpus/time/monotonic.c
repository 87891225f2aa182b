// A thousand readings of the clock, which grow.
#include "corpus.h"

int main(void)
{
    long before = now(), sum = 0;
    for (int i = 0; i < 1000; i++) {
        long after = now();
        CHECK(after >= before);
        sum += (after - before) * i;
        before = after;
    }
    printf("%ld\n", sum);
}
