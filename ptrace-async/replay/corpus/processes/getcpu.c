// The processor, by getcpu and by instructions, while affinity is chosen.
#include "corpus.h"

int main(void)
{
    cpu_set_t all;
    sched_getaffinity(0, sizeof all, &all);
    for (int i = 0; i < 64; i++) {
        unsigned cpu, node;
        if (!CPU_ISSET(i, &all))
            continue;
        cpu_set_t one;
        CPU_ZERO(&one);
        CPU_SET(i, &one);
        OK(sched_setaffinity(0, sizeof one, &one));
        OK(getcpu(&cpu, &node));
        printf("chosen %d, on %u\n", i, cpu);
    }
}
