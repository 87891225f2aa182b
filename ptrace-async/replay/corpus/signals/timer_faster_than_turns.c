// A timer that is faster than a recorder finds places interrupts a loop without calls.
#include "corpus.h"

static volatile int ticks;

static void note(int signal)
{
    ticks++;
}

int main(void)
{
    handle(SIGALRM, note, 0);
    handle(SIGVTALRM, note, 0);
    struct itimerval fast = {{0, 500}, {0, 500}}, slow = {{0, 4000}, {0, 4000}};
    setitimer(ITIMER_REAL, &fast, NULL);
    setitimer(ITIMER_VIRTUAL, &slow, NULL);
    unsigned long rounds = 0;
    while (ticks < 10)
        rounds = rounds * 31 + 7;
    printf("%lx\n", rounds);
    struct itimerval none = {{0, 0}, {0, 0}};
    setitimer(ITIMER_REAL, &none, NULL);
    setitimer(ITIMER_VIRTUAL, &none, NULL);
}
