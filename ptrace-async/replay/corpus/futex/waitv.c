// futex_waitv waits for any of several.
// flags: -pthread
#include "corpus.h"
#include <linux/futex.h>

static int words[3];

static void *run(void *unused)
{
    pause_ms(5);
    words[2] = 1;
    syscall(SYS_futex, &words[2], FUTEX_WAKE, 1, NULL, NULL, 0);
    return NULL;
}

int main(void)
{
    struct {
        uint64_t value, address;
        uint32_t flags, reserved;
    } waiters[3] = {};
    pthread_t thread;
    for (int i = 0; i < 3; i++) {
        waiters[i].address = (uintptr_t)&words[i];
        waiters[i].flags = 2;
    }
    pthread_create(&thread, NULL, run, NULL);
    long which = syscall(449, waiters, 3, 0, NULL, 0);
    // Where the kernel does not have it, that is the answer.
    CHECK(which == 2 || errno == EAGAIN || errno == ENOSYS);
    printf("%ld\n", which);
    pthread_join(thread, NULL);
}
