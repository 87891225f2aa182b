// A shared mapping of a file: writes are seen by read, and the other way round.
#include "corpus.h"

int main(void)
{
    int fd = OK(open("file", O_RDWR | O_CREAT, 0600));
    OK(ftruncate(fd, 8192));
    volatile char *file = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    char byte;
    file[100] = 'x';
    CHECK(pread(fd, &byte, 1, 100) == 1 && byte == 'x');
    CHECK(pwrite(fd, "y", 1, 5000) == 1 && file[5000] == 'y');
    lseek(fd, 6000, SEEK_SET);
    CHECK(write(fd, "z", 1) == 1 && file[6000] == 'z');
    OK(msync((void *)file, 8192, MS_SYNC));
    printf("%p\n", (void *)file);
}
