// Signals that come when a loop has gone round and all registers are again what they were when
// the one before had been handled.
#include "corpus.h"

#define SIGNALS 40

static volatile unsigned long rounds, seen, sum;
static volatile int over;

static void note(int signal)
{
    seen++;
    sum = sum * 31 + rounds;
    over = seen >= SIGNALS;
}

int main(void)
{
    handle(SIGALRM, note, 0);
    struct itimerval timer = {{0, 5000}, {0, 5000}};
    setitimer(ITIMER_REAL, &timer, NULL);
    __asm__ volatile(
        "1: incq %0\n"
        "cmpl $0, %1\n"
        "je 1b"
        : "+m"(rounds)
        : "m"(over)
        : "cc");
    struct itimerval none = {{0, 0}, {0, 0}};
    setitimer(ITIMER_REAL, &none, NULL);
    printf("%lu signals, %lx\n", seen, sum);
    CHECK(rounds > SIGNALS);
}
