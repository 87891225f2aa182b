// Sixty-four GiB of address space, of which some pages are used.
#include "corpus.h"

int main(void)
{
    size_t length = 64UL << 30;
    char *pages = mmap(NULL, length, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    CHECK(pages != MAP_FAILED);
    for (size_t at = 0; at < length; at += 8UL << 30) {
        OK(mprotect(pages + at, 4096, PROT_READ | PROT_WRITE));
        pages[at] = at >> 33;
    }
    printf("%p\n", (void *)pages);
}
