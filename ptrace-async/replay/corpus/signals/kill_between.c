// Two processes that send signals to each other, in turn.
#include "corpus.h"

static volatile int turns;

static void note(int signal)
{
    turns++;
}

int main(void)
{
    sigset_t set, old;
    sigemptyset(&set);
    sigaddset(&set, SIGUSR1);
    handle(SIGUSR1, note, 0);
    sigprocmask(SIG_BLOCK, &set, &old);
    pid_t parent = getpid(), child = fork();
    pid_t other = child ? child : parent;
    for (int i = 0; i < 20; i++) {
        if (child)
            kill(other, SIGUSR1);
        while (turns <= i)
            sigsuspend(&old);
        if (!child)
            kill(other, SIGUSR1);
    }
    if (!child)
        _exit(7);
    printf("%d turns with %d\n", turns, child);
    CHECK(reap(child) == 7);
}
