// Signals to single threads.
// flags: -pthread
#include "corpus.h"

static _Thread_local volatile int mine;
static pthread_barrier_t barrier;

static void note(int signal)
{
    mine++;
}

static void *run(void *number)
{
    pthread_barrier_wait(&barrier);
    while (!mine)
        pause_ms(1);
    printf("thread %ld got %d\n", (long)number, mine);
    return NULL;
}

int main(void)
{
    pthread_t threads[3];
    handle(SIGUSR1, note, SA_RESTART);
    pthread_barrier_init(&barrier, NULL, 4);
    for (long i = 0; i < 3; i++)
        pthread_create(&threads[i], NULL, run, (void *)i);
    pthread_barrier_wait(&barrier);
    for (int i = 2; i >= 0; i--)
        pthread_kill(threads[i], SIGUSR1);
    for (int i = 0; i < 3; i++)
        pthread_join(threads[i], NULL);
}
