// Descriptors with close-on-exec are closed, the others stay.
#include "corpus.h"

int main(int argc, char **argv)
{
    if (argc > 1) {
        CHECK(fcntl(20, F_GETFD) == -1 && errno == EBADF);
        CHECK(fcntl(21, F_GETFD) == 0);
        return 0;
    }
    CHECK(dup3(1, 20, O_CLOEXEC) == 20 && dup2(1, 21) == 21);
    execl("/proc/self/exe", argv[0], "again", NULL);
    return 1;
}
