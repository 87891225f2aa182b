// A spin lock whose waiters yield the processor.
// flags: -pthread
#include "corpus.h"

static volatile int held;
static int order[120], count;

static void *run(void *number)
{
    for (int i = 0; i < 40; i++) {
        while (__atomic_exchange_n(&held, 1, __ATOMIC_ACQUIRE))
            sched_yield();
        order[count++] = (long)number;
        if (i % 8 == 0)
            sched_yield();
        __atomic_store_n(&held, 0, __ATOMIC_RELEASE);
    }
    return NULL;
}

int main(void)
{
    pthread_t threads[3];
    for (long i = 0; i < 3; i++)
        pthread_create(&threads[i], NULL, run, (void *)i);
    for (int i = 0; i < 3; i++)
        pthread_join(threads[i], NULL);
    for (int i = 0; i < 120; i++)
        putchar('0' + order[i]);
    putchar('\n');
}
