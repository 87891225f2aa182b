// A fault without a handler ends the program.
// status: signal 11
#include "corpus.h"

int main(void)
{
    volatile int *nowhere = mmap(NULL, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    printf("about to fault at %p\n", (void *)nowhere);
    *nowhere = 1;
}
