// SIGILL by ud2; the handler skips it.
#include "corpus.h"

static volatile int count;

static void skip(int signal, siginfo_t *info, void *context)
{
    count++;
    ((ucontext_t *)context)->uc_mcontext.gregs[REG_RIP] += 2;
}

int main(void)
{
    handle_info(SIGILL, skip, 0);
    for (int i = 0; i < 3; i++)
        __asm__ volatile("ud2");
    CHECK(count == 3);
}
