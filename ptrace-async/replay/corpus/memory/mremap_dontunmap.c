// MREMAP_DONTUNMAP leaves an empty mapping behind.
#include "corpus.h"

int main(void)
{
    char *pages = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    memset(pages, 3, 8192);
    char *moved = mremap(pages, 8192, 8192, MREMAP_MAYMOVE | MREMAP_DONTUNMAP, NULL);
    CHECK(moved != MAP_FAILED && moved != pages);
    CHECK(moved[100] == 3 && pages[100] == 0);
    printf("%p\n", (void *)moved);
}
