// Files made, written at several positions, and read back.
#include "corpus.h"
#include <sys/uio.h>

int main(void)
{
    char text[100] = {};
    int fd = OK(open("file", O_RDWR | O_CREAT | O_EXCL, 0644));
    int length = sprintf(text, "written by %d at %ld", getpid(), now());
    CHECK(write(fd, text, length) == length);
    CHECK(pwrite(fd, "W", 1, 0) == 1);
    struct iovec from[2] = {{" and", 4}, {" more\n", 6}};
    CHECK(writev(fd, from, 2) == 10);
    lseek(fd, 0, SEEK_SET);
    memset(text, 0, sizeof text);
    CHECK(read(fd, text, sizeof text - 1) == length + 10);
    printf("%s", text);
    char a[3] = {}, b[5] = {};
    struct iovec into[2] = {{a, 2}, {b, 4}};
    CHECK(preadv(fd, into, 2, 1) == 6);
    printf("%s %s\n", a, b);
    CHECK(preadv2(fd, into, 2, 0, 0) == 6 && pwritev(fd, from, 1, 3) == 4);
}
