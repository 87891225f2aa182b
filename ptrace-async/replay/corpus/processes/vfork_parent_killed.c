// A process is killed while one of its threads waits for the child that it made by vfork, and
// another one makes calls that do not stop. The child goes on in the same memory, with the same log.
// flags: -pthread
#include "corpus.h"

enum { ROUNDS = 10 };
static int there[2], go[2], result[2];

static void *spawn(void *unused)
{
    (void)unused;
    pid_t pid = vfork();
    if (!pid) {
        char byte = 0;
        unsigned long times = 0;
        OK(write(there[1], &byte, 1));
        OK(read(go[0], &byte, 1));
        for (int call = 0; call < 200; call++)
            times = times * 31 + now();
        CHECK(write(result[1], &times, sizeof times) == sizeof times);
        // No digest: what a thread that is killed wrote last is not recorded.
        kill(getpid(), SIGKILL);
    }
    return NULL;
}

static void parent(void)
{
    pthread_t thread;
    CHECK(!pthread_create(&thread, NULL, spawn, NULL));
    for (;;)
        now();
}

int main(void)
{
    char byte;
    OK(pipe(there));
    OK(pipe(go));
    OK(pipe(result));
    for (int round = 0; round < ROUNDS; round++) {
        pid_t pid = OK(fork());
        if (!pid)
            parent();
        OK(read(there[0], &byte, 1));
        pause_ms(1);
        OK(kill(pid, SIGKILL));
        int status;
        OK(waitpid(pid, &status, 0));
        CHECK(WIFSIGNALED(status));
        unsigned long times;
        CHECK(write(go[1], "", 1) == 1);
        CHECK(read(result[0], &times, sizeof times) == sizeof times);
        printf("%lu\n", times);
    }
}
