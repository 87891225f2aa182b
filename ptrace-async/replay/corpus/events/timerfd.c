// timerfd: how often it has expired, and what is left.
#include "corpus.h"
#include <sys/timerfd.h>

int main(void)
{
    int fd = OK(timerfd_create(CLOCK_MONOTONIC, 0));
    struct itimerspec spec = {{0, 2000000}, {0, 1000000}}, left;
    OK(timerfd_settime(fd, 0, &spec, NULL));
    for (int i = 0; i < 4; i++) {
        uint64_t count;
        CHECK(read(fd, &count, sizeof count) == sizeof count);
        OK(timerfd_gettime(fd, &left));
        printf("%ld expired, %ld left\n", (long)count, left.it_value.tv_nsec);
        if (i == 2)
            pause_ms(7);
    }
}
