// A child of vfork is killed where it waits, while another thread of its parent makes calls
// that do not stop. What is logged of them is that thread's, although the child has the log too.
// flags: -pthread
#include "corpus.h"

static int ends[2];
static pid_t child;

static void *spawn(void *unused)
{
    (void)unused;
    pid_t pid = vfork();
    if (!pid) {
        char byte;
        __atomic_store_n(&child, getpid(), __ATOMIC_SEQ_CST);
        read(ends[0], &byte, 1);
        _exit(1);
    }
    int status;
    OK(waitpid(pid, &status, 0));
    CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
    return NULL;
}

int main(void)
{
    OK(pipe(ends));
    for (int round = 0; round < 10; round++) {
        pthread_t thread;
        __atomic_store_n(&child, 0, __ATOMIC_SEQ_CST);
        CHECK(!pthread_create(&thread, NULL, spawn, NULL));
        pid_t pid;
        while (!(pid = __atomic_load_n(&child, __ATOMIC_SEQ_CST)))
            sched_yield();
        pid_t killer = OK(fork());
        if (!killer) {
            pause_ms(1);
            _exit(kill(pid, SIGKILL));
        }
        unsigned long times = 0;
        for (long begun = now(), time = begun; time - begun < 3000000; time = now())
            times = times * 31 + time;
        CHECK(reap(killer) == 0);
        CHECK(!pthread_join(thread, NULL));
        printf("%lu\n", times);
    }
}
