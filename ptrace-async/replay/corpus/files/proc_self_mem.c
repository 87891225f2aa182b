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
    // And where the file's position is, many times.
    for (value = 0; value < 20; value++) {
        CHECK(lseek(fd, (uintptr_t)&constant, SEEK_SET) == (off_t)(uintptr_t)&constant);
        CHECK(write(fd, &value, sizeof value) == sizeof value);
        CHECK(constant == value);
    }
}
