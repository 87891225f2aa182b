// A process dies with a robust mutex in shared memory.
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
    pid_t child = fork();
    if (!child) {
        pthread_mutex_lock(mutex);
        _exit(0);
    }
    reap(child);
    CHECK(pthread_mutex_lock(mutex) == EOWNERDEAD);
    CHECK(pthread_mutex_consistent(mutex) == 0);
}
