// dup in its forms, fcntl, close_range, O_APPEND, O_TMPFILE, O_PATH.
#include "corpus.h"

int main(void)
{
    int fd = OK(open("file", O_RDWR | O_CREAT | O_APPEND, 0600));
    CHECK(dup2(fd, 50) == 50 && dup(fd) >= 0 && dup3(fd, 51, O_CLOEXEC) == 51);
    CHECK(fcntl(fd, F_DUPFD, 60) == 60 && fcntl(fd, F_DUPFD_CLOEXEC, 60) == 61);
    CHECK(fcntl(61, F_GETFD) == FD_CLOEXEC);
    OK(fcntl(fd, F_SETFL, O_NONBLOCK | O_APPEND));
    CHECK(fcntl(50, F_GETFL) & O_NONBLOCK);
    OK(close_range(50, 61, 0));
    CHECK(close(50) == -1 && errno == EBADF);
    int temporary = open(".", O_TMPFILE | O_RDWR, 0600);
    printf("%d\n", temporary);
    int path = OK(open("file", O_PATH));
    CHECK(read(path, &fd, 1) == -1 && errno == EBADF);
    OK(fcntl(path, F_GETFD));
    int random = OK(open("/dev/full", O_WRONLY));
    CHECK(write(random, "x", 1) == -1 && errno == ENOSPC);
}
