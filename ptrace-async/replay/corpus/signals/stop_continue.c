// A child that is stopped and continued, seen by its parent.
#include "corpus.h"

int main(void)
{
    int status, ends[2];
    OK(pipe(ends));
    pid_t child = fork();
    if (!child) {
        raise(SIGSTOP);
        write(ends[1], "c", 1);
        pause();
        _exit(0);
    }
    CHECK(waitpid(child, &status, WUNTRACED) == child && WIFSTOPPED(status));
    printf("%d stopped by %d\n", child, WSTOPSIG(status));
    kill(child, SIGCONT);
    CHECK(waitpid(child, &status, WCONTINUED) == child && WIFCONTINUED(status));
    char byte;
    CHECK(read(ends[0], &byte, 1) == 1 && byte == 'c');
    kill(child, SIGKILL);
    CHECK(waitpid(child, &status, 0) == child && WTERMSIG(status) == SIGKILL);
}
