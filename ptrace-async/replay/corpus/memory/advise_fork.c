// MADV_DONTFORK and MADV_WIPEONFORK: what a child gets of memory.
#include "corpus.h"

int main(void)
{
    char *pages = mmap(NULL, 4 * 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    memset(pages, 9, 4 * 4096);
    OK(madvise(pages, 4096, MADV_WIPEONFORK));
    OK(madvise(pages + 2 * 4096, 4096, MADV_DONTFORK));
    pid_t child = fork();
    if (!child) {
        CHECK(pages[0] == 0 && pages[4096] == 9);
        CHECK(write(1, pages + 2 * 4096, 1) == -1 && errno == EFAULT);
        _exit(0);
    }
    CHECK(reap(child) == 0 && pages[0] == 9);
}
