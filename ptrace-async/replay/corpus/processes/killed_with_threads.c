// SIGKILL while several threads run and wait.
// flags: -pthread
#include "corpus.h"

static void *waits(void *unused)
{
    for (;;)
        pause_ms(1000);
}

static void *calls(void *unused)
{
    for (;;)
        sched_yield();
}

int main(void)
{
    int status;
    pid_t child = fork();
    if (!child) {
        pthread_t thread;
        pthread_create(&thread, NULL, waits, NULL);
        pthread_create(&thread, NULL, calls, NULL);
        calls(NULL);
    }
    pause_ms(20);
    kill(child, SIGKILL);
    CHECK(waitpid(child, &status, 0) == child && WTERMSIG(status) == SIGKILL);
}
