// A fault in a thread ends all of them.
// flags: -pthread
// status: signal 11
#include "corpus.h"

static void *run(void *unused)
{
    pause_ms(5);
    *(volatile int *)8 = 1;
    return NULL;
}

int main(void)
{
    pthread_t thread;
    pthread_create(&thread, NULL, run, NULL);
    pthread_join(thread, NULL);
}
