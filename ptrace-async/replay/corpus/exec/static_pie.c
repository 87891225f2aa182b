// A static program at an address of its own each time.
// flags: -static-pie -fPIE
#include "corpus.h"

int main(void)
{
    printf("%p\n", (void *)main);
}
