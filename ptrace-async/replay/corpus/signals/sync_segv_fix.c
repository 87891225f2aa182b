// A handler mends what faulted, and the instruction is done again.
#include "corpus.h"

static void mend(int signal, siginfo_t *info, void *context)
{
    uintptr_t page = (uintptr_t)info->si_addr & ~4095UL;
    CHECK(mprotect((void *)page, 4096, PROT_READ | PROT_WRITE) == 0);
    printf("mended %#lx\n", page);
}

int main(void)
{
    handle_info(SIGSEGV, mend, 0);
    char *pages = mmap(NULL, 8 * 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    for (int i = 0; i < 8; i++)
        pages[i * 4096] = i + getpid();
    for (int i = 0; i < 8; i++)
        CHECK(pages[i * 4096] == (char)(i + getpid()));
}
