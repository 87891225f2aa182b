// signalfd reads signals as records.
#include "corpus.h"
#include <sys/signalfd.h>

int main(void)
{
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGUSR1);
    sigaddset(&set, SIGRTMIN);
    sigprocmask(SIG_BLOCK, &set, NULL);
    int fd = OK(signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK));
    struct signalfd_siginfo info[4];
    CHECK(read(fd, info, sizeof info) == -1 && errno == EAGAIN);
    raise(SIGUSR1);
    for (int i = 0; i < 2; i++)
        OK(sigqueue(getpid(), SIGRTMIN, (union sigval){.sival_int = i}));
    CHECK(read(fd, info, sizeof info) == 3 * sizeof *info);
    for (int i = 0; i < 3; i++)
        printf("signal %d from %d, %d\n", info[i].ssi_signo, info[i].ssi_pid, info[i].ssi_int);
}
