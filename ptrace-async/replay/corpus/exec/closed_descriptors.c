// A program is executed without standard streams, opens others, and goes on.
#include "corpus.h"

int main(int argc, char **argv)
{
    if (argc > 1) {
        int fd = open("/dev/null", O_RDWR);
        dprintf(7, "first descriptor %d, %d\n", fd, getpid());
        return fd == 0 ? 0 : 1;
    }
    CHECK(dup2(1, 7) == 7);
    for (int i = 0; i < 3; i++)
        close(i);
    execl("/proc/self/exe", argv[0], "again", NULL);
    return 2;
}
