// An interrupted nanosleep goes on by restart_syscall after a stop and a continue.
#include "corpus.h"

int main(void)
{
    pid_t child = fork();
    if (!child) {
        struct timespec time = {0, 60000000};
        long start = now();
        CHECK(syscall(SYS_nanosleep, &time, NULL) == 0);
        CHECK(now() - start >= 60000000);
        _exit(0);
    }
    int status;
    pause_ms(15);
    kill(child, SIGSTOP);
    CHECK(waitpid(child, &status, WUNTRACED) == child && WIFSTOPPED(status));
    pause_ms(5);
    kill(child, SIGCONT);
    CHECK(reap(child) == 0);
}
