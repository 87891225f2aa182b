// Waiters with bit sets, of which a wake means some.
// flags: -pthread
#include "corpus.h"
#include <linux/futex.h>

static int word;
static int woken[4], count;

static void *run(void *number)
{
    long bit = 1L << (long)number;
    while (syscall(SYS_futex, &word, FUTEX_WAIT_BITSET, 0, NULL, NULL, bit) == -1 &&
           errno == EINTR)
        ;
    woken[__atomic_fetch_add(&count, 1, __ATOMIC_RELAXED)] = (long)number;
    return NULL;
}

int main(void)
{
    pthread_t threads[4];
    for (long i = 0; i < 4; i++)
        pthread_create(&threads[i], NULL, run, (void *)i);
    for (int i = 3; i >= 0; i--)
        while (syscall(SYS_futex, &word, FUTEX_WAKE_BITSET, 1, NULL, NULL, 1L << i) == 0)
            sched_yield();
    for (int i = 0; i < 4; i++)
        pthread_join(threads[i], NULL);
    printf("%d %d %d %d\n", woken[0], woken[1], woken[2], woken[3]);
}
