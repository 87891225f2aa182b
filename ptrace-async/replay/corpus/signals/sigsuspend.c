// sigsuspend lets a blocked signal in, and the mask is what it was afterwards.
#include "corpus.h"

static volatile int count;

static void note(int signal)
{
    count++;
}

int main(void)
{
    sigset_t set, old, after;
    sigemptyset(&set);
    sigaddset(&set, SIGUSR1);
    handle(SIGUSR1, note, 0);
    sigprocmask(SIG_BLOCK, &set, &old);
    pid_t parent = getpid();
    if (!fork()) {
        pause_ms(10);
        kill(parent, SIGUSR1);
        _exit(0);
    }
    while (!count)
        sigsuspend(&old);
    sigprocmask(SIG_BLOCK, NULL, &after);
    CHECK(sigismember(&after, SIGUSR1) && count == 1);
    wait(NULL);
}
