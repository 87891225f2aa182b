// Wait and wake, with the counts that they return.
// flags: -pthread
#include "corpus.h"
#include <linux/futex.h>

static int word;

static void *run(void *unused)
{
    while (__atomic_load_n(&word, __ATOMIC_ACQUIRE) == 0)
        syscall(SYS_futex, &word, FUTEX_WAIT_PRIVATE, 0, NULL, NULL, 0);
    return NULL;
}

int main(void)
{
    pthread_t threads[3];
    for (int i = 0; i < 3; i++)
        pthread_create(&threads[i], NULL, run, NULL);
    pause_ms(5);
    __atomic_store_n(&word, 1, __ATOMIC_RELEASE);
    printf("woken: %ld\n", syscall(SYS_futex, &word, FUTEX_WAKE_PRIVATE, 10, NULL, NULL, 0));
    for (int i = 0; i < 3; i++)
        pthread_join(threads[i], NULL);
    CHECK(syscall(SYS_futex, &word, FUTEX_WAIT, 0, NULL, NULL, 0) == -1 && errno == EAGAIN);
}
