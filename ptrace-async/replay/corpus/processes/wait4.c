// wait4 and waitid: statuses, resource usage, WNOHANG, WNOWAIT.
#include "corpus.h"

int main(void)
{
    int status;
    struct rusage usage;
    siginfo_t info = {};
    pid_t child = fork();
    if (!child) {
        pause_ms(5);
        _exit(7);
    }
    pid_t early = waitpid(child, &status, WNOHANG);
    printf("early: %d\n", early);
    CHECK(early == 0 || early == child);
    if (early == 0) {
        OK(waitid(P_PID, child, &info, WEXITED | WNOWAIT));
        CHECK(info.si_pid == child && info.si_status == 7);
        CHECK(wait4(child, &status, 0, &usage) == child && WEXITSTATUS(status) == 7);
        printf("%ld us\n", (long)usage.ru_stime.tv_usec + usage.ru_utime.tv_usec);
    }
    CHECK(waitid(P_ALL, 0, &info, WEXITED) == -1 && errno == ECHILD);
}
