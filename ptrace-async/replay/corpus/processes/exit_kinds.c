// Exit statuses: exit with handlers, _exit, return, signals, cores.
#include "corpus.h"

static void bye(void)
{
    printf("bye from %d\n", getpid());
}

int main(void)
{
    struct rlimit none = {};
    setrlimit(RLIMIT_CORE, &none);
    atexit(bye);
    for (int i = 0; i < 4; i++) {
        int status;
        pid_t child = fork();
        if (!child) {
            if (i == 0)
                exit(300);
            if (i == 1)
                _exit(-1);
            if (i == 2)
                raise(SIGKILL);
            *(volatile int *)16 = 0;
        }
        CHECK(waitpid(child, &status, 0) == child);
        printf("%x\n", status);
    }
    return 0;
}
