// A program at a fixed address.
// flags: -no-pie
#include "corpus.h"

int main(void)
{
    printf("%p %p\n", (void *)main, malloc(10));
    CHECK((uintptr_t)main < 1 << 24);
}
