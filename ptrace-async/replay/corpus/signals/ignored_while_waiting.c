// Signals that nobody handles do not end calls, also those that are never restarted.
#include "corpus.h"
#include <sys/epoll.h>

int main(void)
{
    int epoll = OK(epoll_create1(0)), status;
    struct epoll_event event;
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGUSR1);
    sigprocmask(SIG_BLOCK, &set, NULL);
    for (int i = 0; i < 3; i++)
        if (!fork()) {
            pause_ms(4 + 4 * i);
            _exit(0);
        }
    CHECK(epoll_wait(epoll, &event, 1, 30) == 0);
    struct timespec timeout = {0, 20000000};
    if (!fork()) {
        pause_ms(5);
        _exit(0);
    }
    CHECK(sigtimedwait(&set, NULL, &timeout) == -1 && errno == EAGAIN);
    for (int i = 0; i < 4; i++)
        CHECK(wait(&status) > 0 && status == 0);
    printf("%ld\n", now());
}
