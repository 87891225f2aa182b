// A program reads and writes its own memory by /proc/self/mem.
#include "corpus.h"

static const volatile int constant = 5;

int main(void)
{
    int fd = OK(open("/proc/self/mem", O_RDWR)), value = 6, seen = 0;
    CHECK(pread(fd, &seen, sizeof seen, (uintptr_t)&constant) == sizeof seen && seen == 5);
    CHECK(pwrite(fd, &value, sizeof value, (uintptr_t)&constant) == sizeof value);
    printf("%d at %p\n", constant, (void *)&constant);
    CHECK(constant == 6);
}
