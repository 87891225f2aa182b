// Anonymous mappings, written, read and unmapped.
#include "corpus.h"

int main(void)
{
    for (int i = 1; i <= 20; i++) {
        char *pages = mmap(NULL, i * 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        CHECK(pages != MAP_FAILED);
        memset(pages, i, i * 4096);
        printf("%p\n", (void *)pages);
        if (i % 2)
            munmap(pages, i * 4096);
    }
}
