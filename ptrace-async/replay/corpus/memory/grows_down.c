// A mapping that grows downwards when it is touched below.
#include "corpus.h"

int main(void)
{
    char *room = mmap(NULL, 4 << 20, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    munmap(room, 4 << 20);
    char *top = mmap(room + (4 << 20) - 8192, 8192, PROT_READ | PROT_WRITE,
                     MAP_PRIVATE | MAP_ANONYMOUS | MAP_GROWSDOWN | MAP_FIXED, -1, 0);
    CHECK(top != MAP_FAILED);
    for (int i = 1; i < 100; i++)
        top[-4096 * i] = i;
    printf("%p: %d\n", (void *)top, top[-4096 * 50]);
}
