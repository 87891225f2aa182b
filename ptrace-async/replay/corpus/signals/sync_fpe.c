// SIGFPE by a division; the handler skips it.
#include "corpus.h"

static void skip(int signal, siginfo_t *info, void *context)
{
    ucontext_t *where = context;
    CHECK(info->si_code == FPE_INTDIV);
    printf("division at %p\n", info->si_addr);
    where->uc_mcontext.gregs[REG_RIP] += 2;
    where->uc_mcontext.gregs[REG_RAX] = 42;
}

int main(void)
{
    handle_info(SIGFPE, skip, 0);
    int result, zero = 0;
    __asm__ volatile("mov $7, %%eax; cdq; divl %1" : "=a"(result) : "c"(zero) : "rdx");
    CHECK(result == 42);
}
