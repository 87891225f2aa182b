// The process ends while its threads wait and make calls.
// flags: -pthread
// status: 3
#include "corpus.h"

static void *waits(void *unused)
{
    for (;;)
        pause();
}

static void *calls(void *unused)
{
    for (;;)
        syscall(SYS_getppid);
}

int main(void)
{
    pthread_t thread;
    pthread_create(&thread, NULL, waits, NULL);
    pthread_create(&thread, NULL, calls, NULL);
    pthread_create(&thread, NULL, calls, NULL);
    pause_ms(10);
    exit(3);
}
