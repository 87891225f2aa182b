// sigtimedwait and sigwaitinfo take signals without a handler.
#include "corpus.h"

int main(void)
{
    sigset_t set;
    siginfo_t info;
    sigemptyset(&set);
    sigaddset(&set, SIGUSR1);
    sigaddset(&set, SIGRTMIN + 3);
    sigprocmask(SIG_BLOCK, &set, NULL);
    struct timespec timeout = {0, 5000000};
    CHECK(sigtimedwait(&set, &info, &timeout) == -1 && errno == EAGAIN);
    OK(sigqueue(getpid(), SIGRTMIN + 3, (union sigval){.sival_ptr = &info}));
    CHECK(sigwaitinfo(&set, &info) == SIGRTMIN + 3);
    printf("value %p from %d\n", info.si_value.sival_ptr, info.si_pid);
    pid_t parent = getpid(), child = fork();
    if (!child) {
        kill(parent, SIGUSR1);
        _exit(0);
    }
    CHECK(sigwaitinfo(&set, &info) == SIGUSR1 && info.si_pid == child);
    reap(child);
}
