// madvise: pages that are given up are zeros again; other advice changes nothing.
#include "corpus.h"

int main(void)
{
    char *pages = mmap(NULL, 16 * 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    memset(pages, 9, 16 * 4096);
    OK(madvise(pages, 4 * 4096, MADV_DONTNEED));
    CHECK(pages[0] == 0 && pages[4 * 4096] == 9);
    OK(madvise(pages, 16 * 4096, MADV_WILLNEED));
    OK(madvise(pages, 16 * 4096, MADV_SEQUENTIAL));
    madvise(pages, 16 * 4096, MADV_NOHUGEPAGE);
    madvise(pages, 16 * 4096, MADV_COLD);
    CHECK(pages[15 * 4096] == 9);
}
