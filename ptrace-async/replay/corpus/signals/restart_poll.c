// An interrupted poll goes on by restart_syscall after a stop and a continue.
#include "corpus.h"

int main(void)
{
    pid_t child = fork();
    if (!child) {
        long start = now();
        CHECK(poll(NULL, 0, 50) == 0);
        printf("%ld\n", now() - start);
        _exit(0);
    }
    int status;
    pause_ms(15);
    kill(child, SIGSTOP);
    CHECK(waitpid(child, &status, WUNTRACED) == child && WIFSTOPPED(status));
    kill(child, SIGCONT);
    CHECK(reap(child) == 0);
}
