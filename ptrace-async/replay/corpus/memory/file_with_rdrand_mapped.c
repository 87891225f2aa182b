// A file that is mapped while the program runs, and has code in it that draws random numbers
// from the processor, as many libraries have.
// needs: rdrand
#include "corpus.h"

extern char __executable_start[];

__attribute__((noinline)) static unsigned long drawn(void)
{
    unsigned long value;
    __asm__ volatile("1: rdrand %0; jnc 1b" : "=r"(value));
    return value;
}

int main(void)
{
    int file = OK(open("/proc/self/exe", O_RDONLY));
    off_t size = OK(lseek(file, 0, SEEK_END));
    printf("%lx\n", drawn());
    for (int round = 0; round < 3; round++) {
        char *whole = mmap(NULL, size, PROT_READ | PROT_EXEC, MAP_PRIVATE, file, 0);
        CHECK(whole != MAP_FAILED);
        unsigned long (*there)(void) = (void *)(whole + ((char *)drawn - __executable_start));
        printf("%lx %lx\n", there(), there());
        OK(munmap(whole, size));
    }
}
