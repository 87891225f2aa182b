// mprotect back and forth, with faults in between.
#include "corpus.h"
#include <setjmp.h>

static sigjmp_buf back;

static void fault(int signal)
{
    siglongjmp(back, 1);
}

int main(void)
{
    handle(SIGSEGV, fault, 0);
    volatile char *pages = mmap(NULL, 4 * 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    volatile int faults = 0;
    for (volatile int i = 0; i < 4; i++) {
        OK(mprotect((void *)pages + i * 4096, 4096, i % 2 ? PROT_READ : PROT_NONE));
        if (!sigsetjmp(back, 1))
            pages[i * 4096] = 1;
        else
            faults++;
        OK(mprotect((void *)pages + i * 4096, 4096, PROT_READ | PROT_WRITE));
        pages[i * 4096] = i;
    }
    CHECK(faults == 4);
}
