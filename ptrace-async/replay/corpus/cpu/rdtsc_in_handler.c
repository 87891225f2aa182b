// rdtsc in a handler, and between signals.
#include "corpus.h"
#include <x86intrin.h>

static volatile unsigned long long seen;
static volatile int count;

static void note(int signal)
{
    seen = __rdtsc();
    count++;
}

int main(void)
{
    handle(SIGUSR1, note, 0);
    for (int i = 0; i < 20; i++) {
        unsigned long long before = __rdtsc();
        raise(SIGUSR1);
        CHECK(seen >= before && __rdtsc() >= seen);
    }
    printf("%llu\n", seen);
}
