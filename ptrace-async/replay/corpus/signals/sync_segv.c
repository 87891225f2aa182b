// A handler of SIGSEGV is told the address, and leaves by siglongjmp.
#include "corpus.h"
#include <setjmp.h>

static sigjmp_buf back;
static volatile uintptr_t seen;

static void fault(int signal, siginfo_t *info, void *context)
{
    seen = (uintptr_t)info->si_addr;
    siglongjmp(back, 1);
}

int main(void)
{
    handle_info(SIGSEGV, fault, 0);
    char *page = mmap(NULL, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    for (int i = 0; i < 5; i++) {
        if (!sigsetjmp(back, 1))
            page[i * 100] = 1;
        printf("fault %d at %#lx\n", i, seen);
        CHECK(seen == (uintptr_t)page + i * 100);
    }
}
