// Code of a file that is mapped to be read, as emulators do: nobody changes what it is.
#include "corpus.h"

int main(void)
{
    int fd = open("/lib64/ld-linux-x86-64.so.2", O_RDONLY);
    struct stat info;
    CHECK(fd >= 0 && fstat(fd, &info) == 0);
    char *code = mmap(NULL, info.st_size, PROT_READ | PROT_EXEC, MAP_PRIVATE, fd, 0);
    char *file = malloc(info.st_size);
    CHECK(code != MAP_FAILED && pread(fd, file, info.st_size, 0) == info.st_size);
    for (int i = 0; i < 5; i++) {
        printf("%d\n", getpid());
        fflush(stdout);
        close(dup(fd));
    }
    CHECK(memcmp(code, file, info.st_size) == 0);
}
