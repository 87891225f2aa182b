// kcmp compares what two processes share.
#include "corpus.h"

int main(void)
{
    pid_t child = fork();
    if (!child)
        for (;;)
            pause();
    printf("%ld %ld\n", syscall(SYS_kcmp, getpid(), child, 0, 1, 1), syscall(SYS_kcmp, getpid(), child, 1, 0, 0));
    kill(child, SIGKILL);
    wait(NULL);
}
