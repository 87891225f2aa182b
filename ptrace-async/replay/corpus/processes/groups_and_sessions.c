// Process groups and sessions, and a signal to a group.
#include "corpus.h"

int main(void)
{
    int ends[2];
    OK(pipe(ends));
    pid_t leader = fork();
    if (!leader) {
        OK(setsid());
        CHECK(getsid(0) == getpid() && getpgrp() == getpid());
        for (int i = 0; i < 2; i++)
            if (!fork()) {
                write(ends[1], "x", 1);
                for (;;)
                    pause();
            }
        signal(SIGTERM, SIG_IGN);
        char bytes[2];
        for (int i = 0; i < 2; i++)
            read(ends[0], bytes, 1);
        kill(0, SIGTERM);
        for (int i = 0; i < 2; i++) {
            int status;
            pid_t child = wait(&status);
            printf("%d ended by %d\n", child, WTERMSIG(status));
        }
        exit(0);
    }
    CHECK(reap(leader) == 0);
}
