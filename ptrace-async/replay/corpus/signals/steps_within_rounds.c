// A loop of equal steps, many of which make a round. Two steps of a round have the same registers,
// and what tells them apart is the same in each round; what counts rounds is written once in one.
#include "corpus.h"

enum { STEPS = 24, WORK = 12, ROUNDS = 100000, MEMORY = 32 << 20 };

static volatile unsigned long next, rounds, work[WORK], signals_seen;

static void note(int signal)
{
    signals_seen++;
}

// The same registers whenever it is called.
__attribute__((noinline)) static void step(void)
{
    __asm__ volatile(
        "xor %%eax, %%eax\n"
        "xor %%ecx, %%ecx\n"
        "xor %%edx, %%edx\n"
        "1: incq (%0, %%rcx, 8)\n"
        "inc %%rcx\n"
        "cmp %1, %%rcx\n"
        "jne 1b\n"
        "1: decq -8(%0, %%rcx, 8)\n"
        "dec %%rcx\n"
        "jne 1b\n"
        :
        : "r"(work), "i"(WORK)
        : "rax", "rcx", "rdx", "cc", "memory");
    if (++next == STEPS) {
        next = 0;
        rounds++;
    }
}

int main(void)
{
    // It takes long to look at.
    char *memory = malloc(MEMORY);
    memset(memory, 1, MEMORY);
    handle(SIGALRM, note, 0);
    struct itimerval timer = {{0, 3000}, {0, 3000}};
    setitimer(ITIMER_REAL, &timer, NULL);
    while (rounds < ROUNDS)
        step();
    timer = (struct itimerval){{0, 0}, {0, 0}};
    setitimer(ITIMER_REAL, &timer, NULL);
    printf("%lu signals\n", signals_seen);
    CHECK(signals_seen > 0 && memory[MEMORY - 1] == 1);
}
