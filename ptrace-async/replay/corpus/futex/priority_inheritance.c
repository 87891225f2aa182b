// Mutexes with priority inheritance: the kernel writes who holds them.
// flags: -pthread
#include "corpus.h"

static pthread_mutex_t mutex;
static int order[60], count;

static void *run(void *number)
{
    for (int i = 0; i < 20; i++) {
        pthread_mutex_lock(&mutex);
        order[count++] = (long)number;
        if (i % 3 == 0)
            sched_yield();
        pthread_mutex_unlock(&mutex);
    }
    return NULL;
}

int main(void)
{
    pthread_t threads[3];
    pthread_mutexattr_t kind;
    pthread_mutexattr_init(&kind);
    pthread_mutexattr_setprotocol(&kind, PTHREAD_PRIO_INHERIT);
    CHECK(pthread_mutex_init(&mutex, &kind) == 0);
    for (long i = 0; i < 3; i++)
        pthread_create(&threads[i], NULL, run, (void *)i);
    for (int i = 0; i < 3; i++)
        pthread_join(threads[i], NULL);
    for (int i = 0; i < 60; i++)
        putchar('0' + order[i]);
    putchar('\n');
}
