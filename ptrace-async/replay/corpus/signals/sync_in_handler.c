// A fault inside the handler of another signal.
#include "corpus.h"
#include <setjmp.h>

static sigjmp_buf back;
static volatile int inner;
static char *page;

static void fault(int signal)
{
    inner++;
    siglongjmp(back, 1);
}

static void outer(int signal)
{
    if (!sigsetjmp(back, 1))
        *page = 1;
    printf("inner %d\n", inner);
}

int main(void)
{
    handle(SIGSEGV, fault, 0);
    handle(SIGUSR1, outer, 0);
    page = mmap(NULL, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    raise(SIGUSR1);
    raise(SIGUSR1);
    CHECK(inner == 2);
}
