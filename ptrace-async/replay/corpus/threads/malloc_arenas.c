// Threads that allocate, and free what others have allocated.
// flags: -pthread
#include "corpus.h"

static void *slots[64];

static void *run(void *number)
{
    unsigned state = (long)number + 1;
    for (int i = 0; i < 2000; i++) {
        state = state * 1664525 + 1013904223;
        void *new = malloc(state >> 20);
        free(__atomic_exchange_n(&slots[state >> 8 & 63], new, __ATOMIC_ACQ_REL));
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
    for (int i = 0; i < 64; i++)
        printf("%p\n", slots[i]);
}
