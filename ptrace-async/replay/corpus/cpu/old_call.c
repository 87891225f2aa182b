// int 0x80, the call of 32-bit programs, is refused.
// refused: int80
#include "corpus.h"

int main(void)
{
    long result;
    __asm__ volatile("int $0x80" : "=a"(result) : "a"(20) : "memory");
    printf("%ld\n", result);
}
