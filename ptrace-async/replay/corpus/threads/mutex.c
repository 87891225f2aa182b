// Threads that count under a mutex; who gets it when is printed.
// flags: -pthread
#include "corpus.h"

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static int order[400], count;

static void *run(void *number)
{
    for (int i = 0; i < 100; i++) {
        pthread_mutex_lock(&mutex);
        order[count++] = (long)number;
        if (i % 10 == 0)
            sched_yield();
        pthread_mutex_unlock(&mutex);
    }
    return NULL;
}

int main(void)
{
    pthread_t threads[4];
    for (long i = 0; i < 4; i++)
        pthread_create(&threads[i], NULL, run, (void *)i);
    for (int i = 0; i < 4; i++)
        pthread_join(threads[i], NULL);
    for (int i = 0; i < 400; i++)
        putchar('0' + order[i]);
    putchar('\n');
    CHECK(count == 400);
}
