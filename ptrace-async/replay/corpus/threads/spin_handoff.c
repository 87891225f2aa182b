// Two threads that hand a turn to each other by spinning, without a call.
// flags: -pthread
#include "corpus.h"

static volatile int turn;
static volatile unsigned long passes[2];

static void *run(void *number)
{
    long me = (long)number;
    for (int i = 0; i < 3; i++) {
        while (turn != me)
            passes[me]++;
        turn = !me;
    }
    return NULL;
}

int main(void)
{
    pthread_t threads[2];
    for (long i = 0; i < 2; i++)
        pthread_create(&threads[i], NULL, run, (void *)i);
    for (int i = 0; i < 2; i++)
        pthread_join(threads[i], NULL);
    printf("%lu and %lu passes\n", passes[0], passes[1]);
}
