// clone3 with a pidfd and an exit signal.
#include "corpus.h"
#include <linux/sched.h>

int main(void)
{
    int pidfd = -1;
    pid_t inside = 0;
    struct clone_args args = {
        .flags = CLONE_PIDFD | CLONE_PARENT_SETTID,
        .pidfd = (uintptr_t)&pidfd,
        .parent_tid = (uintptr_t)&inside,
        .exit_signal = SIGCHLD,
    };
    pid_t child = OK(syscall(SYS_clone3, &args, sizeof args));
    if (!child)
        _exit(9);
    printf("%d %d %d\n", child, inside, pidfd);
    CHECK(inside == child && pidfd >= 0 && reap(child) == 9);
}
