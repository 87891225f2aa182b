// A long computation without a call, which a signal interrupts several times.
#include "corpus.h"

static volatile unsigned state;
static unsigned seen[64];
static volatile int count;

static void note(int signal)
{
    if (count < 64)
        seen[count] = state;
    count++;
}

int main(void)
{
    handle(SIGALRM, note, 0);
    struct itimerval timer = {{0, 5000}, {0, 5000}};
    setitimer(ITIMER_REAL, &timer, NULL);
    for (unsigned i = 0; i < 40000000; i++)
        state = state * 1664525 + 1013904223;
    timer = (struct itimerval){};
    setitimer(ITIMER_REAL, &timer, NULL);
    for (int i = 0; i < count && i < 64; i++)
        printf("%u\n", seen[i]);
    printf("%d interruptions, %u\n", count, state);
    CHECK(count > 1);
}
