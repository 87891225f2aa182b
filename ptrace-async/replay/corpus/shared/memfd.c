// A memfd, sealed, mapped by a parent and its child.
#include "corpus.h"

int main(void)
{
    int fd = OK(memfd_create("corpus", MFD_ALLOW_SEALING));
    OK(ftruncate(fd, 8192));
    char *one = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    pid_t child = fork();
    if (!child) {
        char *other = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
        CHECK(other != one);
        sprintf(other + 5000, "from %d", getpid());
        _exit(0);
    }
    reap(child);
    puts(one + 5000);
    munmap(one, 8192);
    OK(fcntl(fd, F_ADD_SEALS, F_SEAL_WRITE | F_SEAL_SHRINK));
    CHECK(write(fd, "x", 1) == -1 && errno == EPERM);
    CHECK(fcntl(fd, F_GET_SEALS) == (F_SEAL_WRITE | F_SEAL_SHRINK));
}
