// A thread is cancelled asynchronously while it makes calls.
// flags: -pthread
#include "corpus.h"

static volatile long calls;

static void *run(void *unused)
{
    pthread_setcanceltype(PTHREAD_CANCEL_ASYNCHRONOUS, NULL);
    for (;;) {
        syscall(SYS_getppid);
        calls++;
    }
}

int main(void)
{
    pthread_t thread;
    void *result;
    pthread_create(&thread, NULL, run, NULL);
    pause_ms(10);
    pthread_cancel(thread);
    pthread_join(thread, &result);
    printf("%ld calls\n", calls);
    CHECK(result == PTHREAD_CANCELED);
}
