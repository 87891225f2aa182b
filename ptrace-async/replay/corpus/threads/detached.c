// Detached threads, waited for by a counter.
// flags: -pthread
#include "corpus.h"
#include <semaphore.h>

static sem_t done;

static void *run(void *number)
{
    printf("thread %ld is %d\n", (long)number, gettid());
    sem_post(&done);
    return NULL;
}

int main(void)
{
    pthread_attr_t detached;
    pthread_t thread;
    sem_init(&done, 0, 0);
    pthread_attr_init(&detached);
    pthread_attr_setdetachstate(&detached, PTHREAD_CREATE_DETACHED);
    for (long i = 0; i < 6; i++)
        CHECK(pthread_create(&thread, &detached, run, (void *)i) == 0);
    for (int i = 0; i < 6; i++)
        sem_wait(&done);
}
