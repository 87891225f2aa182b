// A handler of SIGCONT in a process that was stopped.
#include "corpus.h"

static volatile int continued;

static void note(int signal)
{
    continued++;
}

int main(void)
{
    int status;
    pid_t child = fork();
    if (!child) {
        handle(SIGCONT, note, 0);
        raise(SIGSTOP);
        printf("continued %d times\n", continued);
        _exit(continued);
    }
    CHECK(waitpid(child, &status, WUNTRACED) == child && WIFSTOPPED(status));
    kill(child, SIGCONT);
    CHECK(reap(child) == 1);
}
