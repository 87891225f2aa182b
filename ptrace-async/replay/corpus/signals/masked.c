// Signals that are blocked come when they are unblocked, those of one number once.
#include "corpus.h"

static volatile int count;

static void note(int signal)
{
    count++;
}

int main(void)
{
    sigset_t set, pending;
    sigemptyset(&set);
    sigaddset(&set, SIGUSR1);
    handle(SIGUSR1, note, 0);
    sigprocmask(SIG_BLOCK, &set, NULL);
    for (int i = 0; i < 4; i++)
        kill(getpid(), SIGUSR1);
    sigpending(&pending);
    CHECK(sigismember(&pending, SIGUSR1) && count == 0);
    sigprocmask(SIG_UNBLOCK, &set, NULL);
    CHECK(count == 1);
}
