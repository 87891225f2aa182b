// fcntl and flock locks between a parent and its child.
#include "corpus.h"
#include <sys/file.h>

int main(void)
{
    int fd = OK(open("file", O_RDWR | O_CREAT, 0600)), ends[2];
    struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_len = 10};
    char byte;
    OK(pipe(ends));
    OK(fcntl(fd, F_SETLK, &lock));
    pid_t child = fork();
    if (!child) {
        struct flock asked = lock;
        OK(fcntl(fd, F_GETLK, &asked));
        CHECK(asked.l_type == F_WRLCK && asked.l_pid == getppid());
        CHECK(fcntl(fd, F_SETLK, &lock) == -1);
        write(ends[1], "x", 1);
        OK(fcntl(fd, F_SETLKW, &lock));
        printf("locked at %ld\n", now());
        exit(0);
    }
    read(ends[0], &byte, 1);
    pause_ms(5);
    lock.l_type = F_UNLCK;
    OK(fcntl(fd, F_SETLK, &lock));
    reap(child);
    lock.l_type = F_RDLCK;
    lock.l_pid = 0;
    OK(fcntl(fd, F_OFD_SETLK, &lock));
    int other = OK(open("file", O_RDWR));
    OK(flock(fd, LOCK_EX));
    CHECK(flock(other, LOCK_EX | LOCK_NB) == -1 && errno == EWOULDBLOCK);
    OK(flock(fd, LOCK_UN));
    OK(flock(other, LOCK_SH));
}
