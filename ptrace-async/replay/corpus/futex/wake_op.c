// FUTEX_WAKE_OP changes a word and wakes.
// flags: -pthread
#include "corpus.h"
#include <linux/futex.h>

static int first, second = 5;

static void *run(void *unused)
{
    while (syscall(SYS_futex, &first, FUTEX_WAIT, 0, NULL, NULL, 0) == -1 && errno == EINTR)
        ;
    return NULL;
}

int main(void)
{
    pthread_t thread;
    pthread_create(&thread, NULL, run, NULL);
    int op = FUTEX_OP(FUTEX_OP_ADD, 3, FUTEX_OP_CMP_GT, 100), rounds = 0;
    while (OK(syscall(SYS_futex, &first, FUTEX_WAKE_OP, 1, 1L, &second, op)) == 0) {
        rounds++;
        pause_ms(1);
    }
    pthread_join(thread, NULL);
    printf("%d rounds, second %d\n", rounds, second);
    CHECK(second == 5 + 3 * (rounds + 1));
}
