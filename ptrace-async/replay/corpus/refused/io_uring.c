// io_uring is refused: the program is told that it is not there.
// refused: io_uring_setup
#include "corpus.h"

int main(void)
{
    char params[256] = {};
    long fd = syscall(425, 8, params);
    printf("%ld %d\n", fd, fd < 0 ? errno : 0);
}
