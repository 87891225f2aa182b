// A file is written while it is mapped privately: untouched pages show it.
#include "corpus.h"

int main(void)
{
    char text[8192];
    int fd = OK(open("file", O_RDWR | O_CREAT, 0600));
    memset(text, 'a', 8192);
    CHECK(write(fd, text, 8192) == 8192);
    volatile char *file = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE, fd, 0);
    CHECK(file[0] == 'a');
    file[4096] = 'm';
    memset(text, 'b', 8192);
    CHECK(pwrite(fd, text, 8192, 0) == 8192);
    printf("%c %c\n", file[0], file[4097]);
    CHECK(file[0] == 'b' && file[4097] == 'a');
}
