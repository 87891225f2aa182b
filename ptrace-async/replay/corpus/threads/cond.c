// A queue with condition variables, two who fill it and two who empty it.
// flags: -pthread
#include "corpus.h"

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t filled = PTHREAD_COND_INITIALIZER, emptied = PTHREAD_COND_INITIALIZER;
static int queue[4], in, out, taken[200], count;

static void *fill(void *from)
{
    for (int i = 0; i < 100; i++) {
        pthread_mutex_lock(&mutex);
        while (in - out == 4)
            pthread_cond_wait(&emptied, &mutex);
        queue[in++ % 4] = (long)from + i;
        pthread_cond_signal(&filled);
        pthread_mutex_unlock(&mutex);
    }
    return NULL;
}

static void *empty(void *unused)
{
    for (int i = 0; i < 100; i++) {
        pthread_mutex_lock(&mutex);
        while (in == out)
            pthread_cond_wait(&filled, &mutex);
        taken[count++] = queue[out++ % 4];
        pthread_cond_broadcast(&emptied);
        pthread_mutex_unlock(&mutex);
    }
    return NULL;
}

int main(void)
{
    pthread_t threads[4];
    pthread_create(&threads[0], NULL, fill, (void *)0);
    pthread_create(&threads[1], NULL, fill, (void *)1000);
    pthread_create(&threads[2], NULL, empty, NULL);
    pthread_create(&threads[3], NULL, empty, NULL);
    for (int i = 0; i < 4; i++)
        pthread_join(threads[i], NULL);
    for (int i = 0; i < 200; i++)
        printf("%d ", taken[i]);
    putchar('\n');
}
