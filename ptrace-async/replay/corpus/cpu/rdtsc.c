// rdtsc and rdtscp, many times.
#include "corpus.h"
#include <x86intrin.h>

int main(void)
{
    unsigned aux;
    unsigned long long before = __rdtsc(), sum = 0;
    for (int i = 0; i < 300; i++) {
        unsigned long long after = i % 2 ? __rdtsc() : __rdtscp(&aux);
        CHECK(after >= before);
        sum += (after - before) * i;
        before = after;
    }
    printf("%llu, %llu\n", before, sum);
}
