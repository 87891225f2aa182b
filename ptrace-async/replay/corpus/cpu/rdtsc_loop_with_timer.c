// A loop that waits by rdtsc until a timer's signal comes.
#include "corpus.h"
#include <x86intrin.h>

static volatile int over;

static void note(int signal)
{
    over = 1;
}

int main(void)
{
    handle(SIGALRM, note, 0);
    ualarm(10000, 0);
    long rounds = 0;
    while (!over) {
        __rdtsc();
        rounds++;
    }
    printf("%ld rounds\n", rounds);
}
