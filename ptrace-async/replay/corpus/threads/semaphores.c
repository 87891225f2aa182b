// Unnamed semaphores: wait, try, timed.
// flags: -pthread
#include "corpus.h"
#include <semaphore.h>

static sem_t go, done;
static char order[61];
static int count;

static void *run(void *letter)
{
    for (int i = 0; i < 20; i++) {
        sem_wait(&go);
        order[count++] = 'a' + (long)letter;
        sem_post(&done);
    }
    return NULL;
}

int main(void)
{
    pthread_t threads[3];
    sem_init(&go, 0, 0);
    sem_init(&done, 0, 0);
    CHECK(sem_trywait(&go) == -1 && errno == EAGAIN);
    for (long i = 0; i < 3; i++)
        pthread_create(&threads[i], NULL, run, (void *)i);
    for (int i = 0; i < 60; i++) {
        sem_post(&go);
        sem_wait(&done);
    }
    for (int i = 0; i < 3; i++)
        pthread_join(threads[i], NULL);
    puts(order);
}
