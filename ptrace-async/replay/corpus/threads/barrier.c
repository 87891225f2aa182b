// Threads that meet at a barrier; who is last there differs.
// flags: -pthread
#include "corpus.h"

static pthread_barrier_t barrier;
static int last[20];

static void *run(void *number)
{
    for (int i = 0; i < 20; i++)
        if (pthread_barrier_wait(&barrier) == PTHREAD_BARRIER_SERIAL_THREAD)
            last[i] = (long)number;
    return NULL;
}

int main(void)
{
    pthread_t threads[4];
    pthread_barrier_init(&barrier, NULL, 4);
    for (long i = 0; i < 4; i++)
        pthread_create(&threads[i], NULL, run, (void *)i);
    for (int i = 0; i < 4; i++)
        pthread_join(threads[i], NULL);
    for (int i = 0; i < 20; i++)
        printf("%d", last[i]);
    putchar('\n');
}
