// SIGTRAP by int3.
#include "corpus.h"

static volatile int count;

static void note(int signal, siginfo_t *info, void *context)
{
    count++;
    printf("trap before %llx\n", ((ucontext_t *)context)->uc_mcontext.gregs[REG_RIP]);
}

int main(void)
{
    handle_info(SIGTRAP, note, 0);
    for (int i = 0; i < 3; i++)
        __asm__ volatile("int3");
    CHECK(count == 3);
}
