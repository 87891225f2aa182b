// mremap: growing in place, moving, shrinking, to a fixed place.
#include "corpus.h"

int main(void)
{
    char *room = mmap(NULL, 1 << 20, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    char *pages = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    memset(pages, 3, 8192);
    char *moved = mremap(pages, 8192, 1 << 16, MREMAP_MAYMOVE);
    CHECK(moved != MAP_FAILED && moved[8191] == 3 && moved[8192] == 0);
    moved[65535] = 4;
    char *fixed = mremap(moved, 1 << 16, 1 << 16, MREMAP_MAYMOVE | MREMAP_FIXED, room + 8192);
    CHECK(fixed == room + 8192 && fixed[65535] == 4 && fixed[0] == 3);
    CHECK(mremap(fixed, 1 << 16, 4096, 0) == fixed);
    printf("%p %p %p\n", (void *)pages, (void *)moved, (void *)fixed);
}
