// MAP_POPULATE and MAP_LOCKED, mlock and mincore.
#include "corpus.h"

int main(void)
{
    unsigned char resident[16];
    char *pages = mmap(NULL, 16 * 4096, PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
    CHECK(pages != MAP_FAILED);
    OK(mincore(pages, 16 * 4096, resident));
    for (int i = 0; i < 16; i++)
        CHECK(resident[i] & 1);
    printf("%d\n", mlock(pages, 4 * 4096));
    printf("%d\n", munlock(pages, 4 * 4096));
    char *others = mmap(NULL, 16 * 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    others[5 * 4096] = 1;
    OK(mincore(others, 16 * 4096, resident));
    for (int i = 0; i < 16; i++)
        putchar('0' + (resident[i] & 1));
    putchar('\n');
}
