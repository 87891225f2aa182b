// mremap with an old length of zero makes a second mapping of shared memory.
#include "corpus.h"

int main(void)
{
    char *one = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    char *other = mremap(one, 0, 8192, MREMAP_MAYMOVE);
    CHECK(other != MAP_FAILED && other != one);
    one[5] = 77;
    CHECK(other[5] == 77);
    printf("%p %p\n", (void *)one, (void *)other);
}
