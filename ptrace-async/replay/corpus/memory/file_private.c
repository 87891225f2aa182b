// A private mapping of a file that the program has written; its own writes stay its own.
#include "corpus.h"

int main(void)
{
    char text[8192], byte;
    int fd = OK(open("file", O_RDWR | O_CREAT, 0600));
    for (int i = 0; i < 8192; i++)
        text[i] = i + getpid();
    CHECK(write(fd, text, 8192) == 8192);
    char *file = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE, fd, 0);
    CHECK(memcmp(file, text, 8192) == 0);
    file[10] = 'x';
    CHECK(pread(fd, &byte, 1, 10) == 1 && byte == text[10]);
    printf("%d %d\n", file[11], file[5000]);
}
