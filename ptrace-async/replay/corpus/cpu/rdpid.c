// rdpid tells the processor without a call.
// needs: rdpid
#include "corpus.h"

int main(void)
{
    for (int i = 0; i < 20; i++) {
        unsigned long cpu;
        __asm__ volatile(".byte 0xf3, 0x0f, 0xc7, 0xf8" : "=a"(cpu));
        printf("%lx ", cpu);
        sched_yield();
    }
    putchar('\n');
}
