// munmap of parts, over several mappings, and of nothing.
#include "corpus.h"

int main(void)
{
    char *pages = mmap(NULL, 32 * 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    memset(pages, 1, 32 * 4096);
    for (int i = 1; i < 32; i += 4)
        OK(munmap(pages + i * 4096, 4096));
    OK(munmap(pages + 8 * 4096, 8 * 4096));
    OK(munmap(pages + 8 * 4096, 8 * 4096));
    CHECK(munmap(pages + 1, 4096) == -1 && errno == EINVAL);
    CHECK(pages[0] == 1 && pages[2 * 4096] == 1 && pages[16 * 4096] == 1);
    CHECK(write(1, pages + 8 * 4096, 1) == -1 && errno == EFAULT);
}
