// A thread dies with a robust mutex: the next one learns of it.
// flags: -pthread
#include "corpus.h"

static pthread_mutex_t mutex;

static void *run(void *unused)
{
    pthread_mutex_lock(&mutex);
    return NULL;
}

int main(void)
{
    pthread_t thread;
    pthread_mutexattr_t kind;
    pthread_mutexattr_init(&kind);
    pthread_mutexattr_setrobust(&kind, PTHREAD_MUTEX_ROBUST);
    pthread_mutex_init(&mutex, &kind);
    pthread_create(&thread, NULL, run, NULL);
    pthread_join(thread, NULL);
    CHECK(pthread_mutex_lock(&mutex) == EOWNERDEAD);
    CHECK(pthread_mutex_consistent(&mutex) == 0);
    pthread_mutex_unlock(&mutex);
    CHECK(pthread_mutex_lock(&mutex) == 0);
}
