// A handler on an alternate stack, after the ordinary one has overflowed.
#include "corpus.h"
#include <setjmp.h>

static sigjmp_buf back;
static volatile int overflows;

static void fault(int signal)
{
    overflows++;
    siglongjmp(back, 1);
}

static int deep(volatile int depth)
{
    volatile char room[4096];
    room[0] = depth;
    return deep(depth + 1) + room[0];
}

int main(void)
{
    struct rlimit limit = {1 << 20, 1 << 20};
    setrlimit(RLIMIT_STACK, &limit);
    stack_t stack = {.ss_sp = malloc(1 << 16), .ss_size = 1 << 16}, old;
    OK(sigaltstack(&stack, NULL));
    handle(SIGSEGV, fault, SA_ONSTACK);
    for (int i = 0; i < 2; i++)
        if (!sigsetjmp(back, 1))
            deep(0);
    OK(sigaltstack(NULL, &old));
    printf("stack %p\n", old.ss_sp);
    CHECK(overflows == 2 && old.ss_sp == stack.ss_sp);
}
