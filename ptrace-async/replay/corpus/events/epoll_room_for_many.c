// epoll_wait with room for more events than are taken at once, and with room for none.
#include "corpus.h"
#include <sys/epoll.h>
#include <sys/eventfd.h>

int main(void)
{
    enum { ROOM = 10240 };
    static struct epoll_event events[ROOM];
    struct rlimit limit;
    OK(getrlimit(RLIMIT_NOFILE, &limit));
    limit.rlim_cur = limit.rlim_max;
    OK(setrlimit(RLIMIT_NOFILE, &limit));
    int ready = limit.rlim_max > 3600 ? 3500 : (int)limit.rlim_max - 100;
    int epoll = OK(epoll_create1(0));
    for (int i = 0; i < ready; i++) {
        struct epoll_event event = {EPOLLIN, {.u32 = i * 7 + getpid()}};
        OK(epoll_ctl(epoll, EPOLL_CTL_ADD, OK(eventfd(1, 0)), &event));
    }
    for (int round = 0; round < 20; round++) {
        int got = OK(epoll_wait(epoll, events, ROOM, -1));
        CHECK(got > 0 && got <= ready);
        // Who is told first has been told by the round before.
        printf("%d: %s, %u\n", round, got == ready ? "all" : "some", events[got - 1].data.u32);
        CHECK(epoll_wait(epoll, events, 0, -1) == -1 && errno == EINVAL);
        CHECK(epoll_wait(epoll, events, -1, -1) == -1 && errno == EINVAL);
        got = OK(epoll_wait(epoll, events, 5, 0));
        CHECK(got == 5);
    }
    int quiet = OK(epoll_create1(0));
    for (int round = 0; round < 20; round++)
        CHECK(epoll_wait(quiet, events, ROOM, 1) == 0);
}
