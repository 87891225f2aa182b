// epoll: level, edge and one-shot, and changes of the set.
#include "corpus.h"
#include <sys/epoll.h>

int main(void)
{
    int level[2], edge[2], once[2], epoll = OK(epoll_create1(EPOLL_CLOEXEC));
    struct epoll_event events[8];
    OK(pipe(level));
    OK(pipe(edge));
    OK(pipe(once));
    events[0] = (struct epoll_event){EPOLLIN, {.u64 = (uintptr_t)&level}};
    OK(epoll_ctl(epoll, EPOLL_CTL_ADD, level[0], &events[0]));
    events[0] = (struct epoll_event){EPOLLIN | EPOLLET, {.u64 = 2}};
    OK(epoll_ctl(epoll, EPOLL_CTL_ADD, edge[0], &events[0]));
    events[0] = (struct epoll_event){EPOLLIN | EPOLLONESHOT, {.u64 = 3}};
    OK(epoll_ctl(epoll, EPOLL_CTL_ADD, once[0], &events[0]));
    CHECK(epoll_wait(epoll, events, 8, 2) == 0);
    write(level[1], "x", 1);
    write(edge[1], "x", 1);
    write(once[1], "x", 1);
    CHECK(epoll_wait(epoll, events, 8, -1) == 3);
    CHECK(epoll_pwait(epoll, events, 8, -1, NULL) == 1);
    printf("%lx\n", (long)events[0].data.u64);
    write(edge[1], "y", 1);
    CHECK(epoll_wait(epoll, events, 8, -1) == 2);
    events[0] = (struct epoll_event){EPOLLIN | EPOLLONESHOT, {.u64 = 4}};
    OK(epoll_ctl(epoll, EPOLL_CTL_MOD, once[0], &events[0]));
    OK(epoll_ctl(epoll, EPOLL_CTL_DEL, level[0], NULL));
    CHECK(epoll_wait(epoll, events, 8, -1) == 1 && events[0].data.u64 == 4);
    CHECK(epoll_ctl(epoll, EPOLL_CTL_ADD, edge[0], &events[0]) == -1 && errno == EEXIST);
}
