// A loop in registers within one that counts in memory, which looks the same in each round.
#include "corpus.h"

static volatile unsigned long rounds, seen;
static volatile int over;

static void note(int signal)
{
    seen = rounds;
    over = 1;
}

int main(void)
{
    handle(SIGVTALRM, note, 0);
    struct itimerval timer = {{0, 0}, {0, 30000}};
    setitimer(ITIMER_VIRTUAL, &timer, NULL);
    __asm__ volatile(
        "1: mov $6000000, %%ecx\n"
        "2: dec %%rcx\n"
        "jnz 2b\n"
        "incq %0\n"
        "cmpl $0, %1\n"
        "je 1b"
        : "+m"(rounds)
        : "m"(over)
        : "rcx", "cc");
    printf("%lu rounds, %lu at the signal\n", rounds, seen);
    CHECK(seen && rounds > seen);
}
