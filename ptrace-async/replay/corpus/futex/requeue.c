// Waiters that are moved from one futex to another.
// flags: -pthread
#include "corpus.h"
#include <linux/futex.h>

static int first, second;

static void *run(void *unused)
{
    while (syscall(SYS_futex, &first, FUTEX_WAIT, 0, NULL, NULL, 0) == -1 && errno == EINTR)
        ;
    return NULL;
}

int main(void)
{
    pthread_t threads[3];
    for (int i = 0; i < 3; i++)
        pthread_create(&threads[i], NULL, run, NULL);
    long moved = 0;
    while (moved < 3) {
        moved += OK(syscall(SYS_futex, &first, FUTEX_CMP_REQUEUE, 0, 10L, &second, 0));
        sched_yield();
    }
    // A kernel that wakes one for no reason has it wait where it began.
    long woken = 0;
    while (woken < 3) {
        woken += OK(syscall(SYS_futex, &second, FUTEX_WAKE, 1, NULL, NULL, 0));
        woken += OK(syscall(SYS_futex, &first, FUTEX_WAKE, 1, NULL, NULL, 0));
    }
    for (int i = 0; i < 3; i++)
        pthread_join(threads[i], NULL);
    printf("%ld moved, %ld woken\n", moved, woken);
}
