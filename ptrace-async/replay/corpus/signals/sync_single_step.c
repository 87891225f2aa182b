// SIGTRAP by the trap flag, which the program sets for some instructions.
#include "corpus.h"

static volatile int count;
static volatile long sum;

static void note(int signal, siginfo_t *info, void *context)
{
    count++;
    sum += ((ucontext_t *)context)->uc_mcontext.gregs[REG_RIP];
}

int main(void)
{
    handle_info(SIGTRAP, note, 0);
    __asm__ volatile("sub $128, %%rsp; pushf; orl $0x100, (%%rsp); popf; nop; nop; nop; nop;"
                     "pushf; andl $~0x100, (%%rsp); popf; add $128, %%rsp" ::
                         : "memory", "cc");
    printf("%d steps, %lx\n", count, sum);
    CHECK(count >= 4);
}
