// Transparent huge pages, asked for and split.
#include "corpus.h"

int main(void)
{
    char *pages = mmap(NULL, 8 << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    madvise(pages, 8 << 20, MADV_HUGEPAGE);
    for (int i = 0; i < 8 << 20; i += 4096)
        pages[i] = i >> 12;
    OK(munmap(pages + (3 << 20), 4096));
    OK(mprotect(pages + (5 << 20), 4096, PROT_READ));
    void *huge = mmap(NULL, 2 << 20, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_HUGETLB, -1, 0);
    // Machines seldom keep any.
    printf("%p %d\n", huge, huge == MAP_FAILED ? errno : 0);
    if (huge != MAP_FAILED)
        memset(huge, 1, 100);
}
