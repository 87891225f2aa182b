// Readers and writers.
// flags: -pthread
#include "corpus.h"

static pthread_rwlock_t lock = PTHREAD_RWLOCK_INITIALIZER;
static int value, seen[3][50];

static void *reads(void *number)
{
    for (int i = 0; i < 50; i++) {
        pthread_rwlock_rdlock(&lock);
        seen[(long)number][i] = value;
        pthread_rwlock_unlock(&lock);
        sched_yield();
    }
    return NULL;
}

static void *writes(void *unused)
{
    for (int i = 0; i < 50; i++) {
        pthread_rwlock_wrlock(&lock);
        value++;
        pthread_rwlock_unlock(&lock);
        sched_yield();
    }
    return NULL;
}

int main(void)
{
    pthread_t threads[4];
    for (long i = 0; i < 3; i++)
        pthread_create(&threads[i], NULL, reads, (void *)i);
    pthread_create(&threads[3], NULL, writes, NULL);
    for (int i = 0; i < 4; i++)
        pthread_join(threads[i], NULL);
    for (int i = 0; i < 3; i++) {
        for (int j = 0; j < 50; j++)
            printf("%d ", seen[i][j]);
        putchar('\n');
    }
}
