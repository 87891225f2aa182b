// MAP_FIXED into the middle of another mapping, and MAP_FIXED_NOREPLACE.
#include "corpus.h"

int main(void)
{
    char *pages = mmap(NULL, 16 * 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    memset(pages, 7, 16 * 4096);
    char *middle = mmap(pages + 4 * 4096, 4 * 4096, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
    CHECK(middle == pages + 4 * 4096 && middle[0] == 0 && pages[0] == 7 && pages[8 * 4096] == 7);
    CHECK(mmap(pages, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0) ==
              MAP_FAILED &&
          errno == EEXIST);
    munmap(pages + 2 * 4096, 4096);
    char *hole = mmap(pages + 2 * 4096, 4096, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
    CHECK(hole == pages + 2 * 4096);
    printf("%p\n", (void *)pages);
}
