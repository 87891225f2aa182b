// MADV_FREE: pages may be zeros at any time, but what is written later stays.
#include "corpus.h"

int main(void)
{
    char *pages = mmap(NULL, 64 * 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    memset(pages, 9, 64 * 4096);
    OK(madvise(pages, 64 * 4096, MADV_FREE));
    for (int i = 0; i < 64; i += 2)
        pages[i * 4096] = 5;
    int left = 0;
    for (int i = 0; i < 64; i++) {
        left += pages[i * 4096] == 9;
        CHECK(i % 2 || pages[i * 4096] == 5);
    }
    printf("%d pages are left\n", left);
}
