// A loop that stores its flags and loads them again, which a signal interrupts.
#include "corpus.h"

static volatile int over;

static void note(int signal)
{
    over = 1;
}

int main(void)
{
    handle(SIGALRM, note, 0);
    for (int time = 0; time < 5; time++) {
        unsigned long seen = 0, rounds = 0;
        over = 0;
        ualarm(20000, 0);
        while (!over)
            __asm__ volatile(
                "lea -128(%%rsp), %%rsp\n"
                "pushfq\n"
                "popq %%rax\n"
                "orq %%rax, %0\n"
                "pushfq\n"
                "incq %1\n"
                "popfq\n"
                "pushfw\n"
                "popw %%ax\n"
                "orw %%ax, %w0\n"
                "lea 128(%%rsp), %%rsp\n"
                : "+r"(seen), "+r"(rounds)
                :
                : "rax", "cc", "memory");
        printf("%lu rounds, trap flag %lu\n", rounds, seen >> 8 & 1);
        CHECK(!(seen >> 8 & 1));
    }
}
