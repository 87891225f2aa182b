// EAGAIN at both ends of a pipe, and FIONREAD.
#include "corpus.h"
#include <sys/ioctl.h>

int main(void)
{
    int ends[2], waiting;
    char block[4096] = {}, byte;
    OK(pipe2(ends, O_NONBLOCK));
    CHECK(read(ends[0], &byte, 1) == -1 && errno == EAGAIN);
    long all = 0, put;
    while ((put = write(ends[1], block, sizeof block)) > 0)
        all += put;
    CHECK(errno == EAGAIN);
    OK(ioctl(ends[0], FIONREAD, &waiting));
    printf("%ld %d\n", all, waiting);
    CHECK(all == waiting);
}
