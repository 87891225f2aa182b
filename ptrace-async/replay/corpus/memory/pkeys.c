// Memory protection keys, where the processor has them.
#include "corpus.h"

int main(void)
{
    char *page = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    int key = pkey_alloc(0, 0);
    printf("key %d\n", key);
    if (key < 0)
        return 0;
    OK(pkey_mprotect(page, 4096, PROT_READ | PROT_WRITE, key));
    page[0] = 1;
    OK(pkey_free(key));
}
