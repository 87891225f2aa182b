// Threads that increment without a lock, and so lose some.
// flags: -pthread
#include "corpus.h"

static volatile long count;

static void *run(void *unused)
{
    for (int i = 0; i < 300; i++) {
        long seen = count;
        if (i % 7 == 0)
            sched_yield();
        count = seen + 1;
    }
    return NULL;
}

int main(void)
{
    pthread_t threads[3];
    for (int i = 0; i < 3; i++)
        pthread_create(&threads[i], NULL, run, NULL);
    for (int i = 0; i < 3; i++)
        pthread_join(threads[i], NULL);
    printf("%ld of 900\n", count);
}
