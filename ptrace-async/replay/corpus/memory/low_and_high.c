// Mappings below 4 GiB (MAP_32BIT) and at hints.
#include "corpus.h"

int main(void)
{
    void *low = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_32BIT, -1, 0);
    void *hint = mmap((void *)0x600000000000, 4096, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    printf("%p %p\n", low, hint);
    CHECK((uintptr_t)low < 1UL << 32);
    *(long *)low = now();
    *(long *)hint = now();
}
