// ppoll lets a signal in for its time, and tells what time is left.
#include "corpus.h"

static volatile int count;

static void note(int signal)
{
    count++;
}

int main(void)
{
    sigset_t set, empty;
    sigemptyset(&empty);
    sigemptyset(&set);
    sigaddset(&set, SIGALRM);
    handle(SIGALRM, note, 0);
    sigprocmask(SIG_BLOCK, &set, NULL);
    ualarm(5000, 0);
    struct timespec timeout = {1, 0};
    CHECK(ppoll(NULL, 0, &timeout, &empty) == -1 && errno == EINTR && count == 1);
    timeout = (struct timespec){0, 1000000};
    CHECK(syscall(SYS_ppoll, NULL, 0, &timeout, NULL, 8) == 0);
    printf("%ld left\n", timeout.tv_nsec);
}
