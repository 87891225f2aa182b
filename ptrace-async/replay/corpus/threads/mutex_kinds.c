// Recursive, error-checking and timed mutexes.
// flags: -pthread
#include "corpus.h"

static pthread_mutex_t recursive, checking, plain = PTHREAD_MUTEX_INITIALIZER;

static void *locks(void *unused)
{
    struct timespec until;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_nsec += 20000000;
    if (until.tv_nsec >= 1000000000) {
        until.tv_nsec -= 1000000000;
        until.tv_sec++;
    }
    CHECK(pthread_mutex_trylock(&recursive) == EBUSY);
    CHECK(pthread_mutex_timedlock(&plain, &until) == ETIMEDOUT);
    return NULL;
}

int main(void)
{
    pthread_t thread;
    pthread_mutexattr_t kind;
    pthread_mutexattr_init(&kind);
    pthread_mutexattr_settype(&kind, PTHREAD_MUTEX_RECURSIVE);
    pthread_mutex_init(&recursive, &kind);
    pthread_mutexattr_settype(&kind, PTHREAD_MUTEX_ERRORCHECK);
    pthread_mutex_init(&checking, &kind);
    for (int i = 0; i < 3; i++)
        CHECK(pthread_mutex_lock(&recursive) == 0);
    CHECK(pthread_mutex_lock(&checking) == 0);
    CHECK(pthread_mutex_lock(&checking) == EDEADLK);
    pthread_mutex_lock(&plain);
    pthread_create(&thread, NULL, locks, NULL);
    pthread_join(thread, NULL);
}
