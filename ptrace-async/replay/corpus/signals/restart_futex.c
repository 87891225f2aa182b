// An interrupted futex wait with a timeout goes on after a stop and a continue.
#include "corpus.h"
#include <linux/futex.h>

int main(void)
{
    pid_t child = fork();
    if (!child) {
        int word = 0;
        struct timespec time = {0, 50000000};
        CHECK(syscall(SYS_futex, &word, FUTEX_WAIT, 0, &time, NULL, 0) == -1 &&
              errno == ETIMEDOUT);
        _exit(0);
    }
    int status;
    pause_ms(15);
    kill(child, SIGSTOP);
    CHECK(waitpid(child, &status, WUNTRACED) == child && WIFSTOPPED(status));
    kill(child, SIGCONT);
    CHECK(reap(child) == 0);
}
