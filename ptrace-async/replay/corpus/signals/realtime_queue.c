// Queued realtime signals come in order, with their values.
#include "corpus.h"

static volatile int count;

static void note(int signal, siginfo_t *info, void *context)
{
    printf("%d: %d, value %d, from %d\n", count, signal - SIGRTMIN, info->si_value.sival_int,
           info->si_pid);
    count++;
}

int main(void)
{
    sigset_t set;
    sigemptyset(&set);
    for (int i = 0; i < 3; i++) {
        handle_info(SIGRTMIN + i, note, 0);
        sigaddset(&set, SIGRTMIN + i);
    }
    sigprocmask(SIG_BLOCK, &set, NULL);
    for (int i = 0; i < 9; i++)
        OK(sigqueue(getpid(), SIGRTMIN + i % 3, (union sigval){.sival_int = i * 1000 + getpid()}));
    sigprocmask(SIG_UNBLOCK, &set, NULL);
    CHECK(count == 9);
}
