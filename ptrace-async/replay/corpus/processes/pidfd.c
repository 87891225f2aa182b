// pidfd_open, pidfd_send_signal, poll of a pidfd, waitid with it.
#include "corpus.h"

int main(void)
{
    pid_t child = fork();
    if (!child)
        for (;;)
            pause();
    int fd = OK(syscall(SYS_pidfd_open, child, 0));
    struct pollfd poll_fd = {fd, POLLIN};
    CHECK(poll(&poll_fd, 1, 0) == 0);
    OK(syscall(SYS_pidfd_send_signal, fd, SIGTERM, NULL, 0));
    CHECK(poll(&poll_fd, 1, -1) == 1);
    siginfo_t info = {};
    OK(waitid(P_PIDFD, fd, &info, WEXITED));
    printf("%d ended by %d\n", info.si_pid, info.si_status);
    CHECK(info.si_pid == child && info.si_status == SIGTERM);
}
