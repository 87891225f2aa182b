// Calls that wait are interrupted by a handler, after many that were not; and not by a signal
// that nobody handles.
#include "corpus.h"
#include <sys/epoll.h>

static volatile int alarms;

static void on_alarm(int signal)
{
    (void) signal;
    alarms++;
}

int main(void)
{
    int ends[2];
    char text[8];
    OK(pipe(ends));
    int epoll = OK(epoll_create1(0));
    struct epoll_event event = {.events = EPOLLIN, .data.fd = ends[0]};
    OK(epoll_ctl(epoll, EPOLL_CTL_ADD, ends[0], &event));
    for (int i = 0; i < 10; i++) {
        CHECK(write(ends[1], "x", 1) == 1);
        CHECK(epoll_wait(epoll, &event, 1, -1) == 1);
        CHECK(read(ends[0], text, 8) == 1);
    }
    struct sigaction action = {.sa_handler = on_alarm};
    OK(sigaction(SIGALRM, &action, NULL));
    for (int i = 0; i < 5; i++) {
        int before = alarms;
        alarm_every_ms(3);
        CHECK(read(ends[0], text, 8) == -1 && errno == EINTR);
        CHECK(alarms > before);
        CHECK(epoll_wait(epoll, &event, 1, -1) == -1 && errno == EINTR);
        CHECK(alarms > before + 1);
        alarm_every_ms(0);
    }
    // The end of a child is nothing to a program that does not ask for it.
    for (int i = 0; i < 5; i++) {
        pid_t child = OK(fork());
        if (child == 0) {
            pid_t other = OK(fork());
            if (other == 0) {
                pause_ms(4);
                CHECK(write(ends[1], "x", 1) == 1);
            }
            _exit(0);
        }
        CHECK(epoll_wait(epoll, &event, 1, -1) == 1);
        CHECK(read(ends[0], text, 8) == 1);
        CHECK(waitpid(child, NULL, 0) == child);
    }
    printf("%d alarms\n", alarms);
    return 0;
}
