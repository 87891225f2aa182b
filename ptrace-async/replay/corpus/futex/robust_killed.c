// A process is killed with a robust mutex for which another one waits.
// flags: -pthread
#include "corpus.h"

int main(void)
{
    pthread_mutex_t *mutex = mmap(NULL, 4096, PROT_READ | PROT_WRITE,
                                  MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    pthread_mutexattr_t kind;
    pthread_mutexattr_init(&kind);
    pthread_mutexattr_setrobust(&kind, PTHREAD_MUTEX_ROBUST);
    pthread_mutexattr_setpshared(&kind, PTHREAD_PROCESS_SHARED);
    pthread_mutex_init(mutex, &kind);
    int ends[2];
    OK(pipe(ends));
    pid_t holder = fork();
    if (!holder) {
        pthread_mutex_lock(mutex);
        write(ends[1], "x", 1);
        for (;;)
            pause();
    }
    char byte;
    CHECK(read(ends[0], &byte, 1) == 1);
    pid_t killer = fork();
    if (!killer) {
        pause_ms(10);
        kill(holder, SIGKILL);
        _exit(0);
    }
    CHECK(pthread_mutex_lock(mutex) == EOWNERDEAD);
    while (wait(NULL) > 0)
        ;
}
