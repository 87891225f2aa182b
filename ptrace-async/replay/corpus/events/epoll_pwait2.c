// epoll_pwait2 with a time-out in nanoseconds.
#include "corpus.h"
#include <sys/epoll.h>

int main(void)
{
    int epoll = OK(epoll_create1(0));
    struct epoll_event events[2];
    struct timespec timeout = {0, 100000};
    CHECK(syscall(441, epoll, events, 2, &timeout, NULL, 8) == 0);
    printf("%ld\n", now());
}
