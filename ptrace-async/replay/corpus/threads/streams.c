// One thread waits for events and never in a call on a stream; another waits in each; a
// third one computes.
// flags: -pthread
#include "corpus.h"
#include <sys/epoll.h>
#include <sys/socket.h>

enum { ROUNDS = 300 };
static int pair[2], pipes[2];
static volatile int over;

static void *answers(void *unused)
{
    int events = epoll_create1(0);
    struct epoll_event event = {.events = EPOLLIN, .data.fd = pair[1]};
    CHECK(epoll_ctl(events, EPOLL_CTL_ADD, pair[1], &event) == 0);
    for (int answered = 0; answered < ROUNDS;) {
        CHECK(epoll_wait(events, &event, 1, -1) == 1);
        char text[8];
        ssize_t got;
        while ((got = read(pair[1], text, 8)) == 8) {
            CHECK(write(pair[1], text, 8) == 8);
            answered++;
        }
        CHECK(got == -1 && errno == EAGAIN);
    }
    close(events);
    return NULL;
}

static void *relays(void *unused)
{
    char text[8];
    for (int i = 0; i < ROUNDS; i++) {
        CHECK(read(pipes[0], text, 8) == 8);
        if (i % 50 == 0)
            CHECK(write(1, text, 8) == 8);
    }
    return NULL;
}

static void *computes(void *unused)
{
    unsigned long sum = 1;
    while (!over)
        sum = sum * 31 + 7;
    return (void *) (sum & 1);
}

int main(void)
{
    CHECK(socketpair(AF_UNIX, SOCK_STREAM, 0, pair) == 0);
    CHECK(fcntl(pair[1], F_SETFL, O_NONBLOCK) == 0);
    CHECK(pipe(pipes) == 0);
    pthread_t threads[3];
    CHECK(pthread_create(&threads[0], NULL, answers, NULL) == 0);
    CHECK(pthread_create(&threads[1], NULL, relays, NULL) == 0);
    CHECK(pthread_create(&threads[2], NULL, computes, NULL) == 0);
    for (int i = 0; i < ROUNDS; i++) {
        char text[9];
        snprintf(text, 9, "%07d\n", i);
        CHECK(write(pair[0], text, 8) == 8);
        CHECK(read(pair[0], text, 8) == 8);
        CHECK(write(pipes[1], text, 8) == 8);
    }
    CHECK(pthread_join(threads[0], NULL) == 0);
    CHECK(pthread_join(threads[1], NULL) == 0);
    over = 1;
    CHECK(pthread_join(threads[2], NULL) == 0);
    return 0;
}
