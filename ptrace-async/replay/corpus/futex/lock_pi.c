// FUTEX_LOCK_PI itself, with waiters.
// flags: -pthread
#include "corpus.h"
#include <linux/futex.h>

static int word;

static void *run(void *unused)
{
    OK(syscall(SYS_futex, &word, FUTEX_LOCK_PI, 0, NULL, NULL, 0));
    printf("%x held by %d\n", __atomic_load_n(&word, __ATOMIC_RELAXED), gettid());
    OK(syscall(SYS_futex, &word, FUTEX_UNLOCK_PI, 0, NULL, NULL, 0));
    return NULL;
}

int main(void)
{
    pthread_t threads[3];
    OK(syscall(SYS_futex, &word, FUTEX_LOCK_PI, 0, NULL, NULL, 0));
    CHECK((word & FUTEX_TID_MASK) == gettid());
    for (int i = 0; i < 3; i++)
        pthread_create(&threads[i], NULL, run, NULL);
    pause_ms(10);
    printf("%x\n", __atomic_load_n(&word, __ATOMIC_RELAXED));
    OK(syscall(SYS_futex, &word, FUTEX_UNLOCK_PI, 0, NULL, NULL, 0));
    for (int i = 0; i < 3; i++)
        pthread_join(threads[i], NULL);
    printf("%x\n", word);
}
