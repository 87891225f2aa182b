// A JIT with two mappings of one memfd: one to write, one to run.
#include "corpus.h"

int main(void)
{
    int fd = OK(memfd_create("code", 0));
    OK(ftruncate(fd, 4096));
    unsigned char *writes = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    unsigned char *runs = mmap(NULL, 4096, PROT_READ | PROT_EXEC, MAP_SHARED, fd, 0);
    CHECK(writes != MAP_FAILED && runs != MAP_FAILED);
    memcpy(writes, "\xb8\0\0\0\0\xc3", 6);
    for (int i = 0; i < 100; i++) {
        int value = i + getpid();
        memcpy(writes + 1, &value, 4);
        CHECK(((int (*)(void))runs)() == value);
    }
    printf("%p %p\n", (void *)writes, (void *)runs);
}
