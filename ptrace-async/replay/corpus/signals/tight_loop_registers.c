// A tight loop in registers, whose counter the handler reads.
#include "corpus.h"

static volatile int over;
static volatile unsigned long long seen;

static void note(int signal, siginfo_t *info, void *context)
{
    seen = ((ucontext_t *)context)->uc_mcontext.gregs[REG_RCX];
    over = 1;
}

int main(void)
{
    handle_info(SIGALRM, note, 0);
    ualarm(30000, 0);
    unsigned long count = 0;
    __asm__ volatile("1: inc %0; cmpl $0, %1; je 1b" : "+c"(count) : "m"(over));
    printf("%lu passes, %llu at the signal\n", count, seen);
    CHECK(seen && count >= seen);
}
