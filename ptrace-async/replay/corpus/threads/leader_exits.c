// The main thread ends first, and the process ends with the last one.
// flags: -pthread
// status: 5
#include "corpus.h"

static void *run(void *unused)
{
    pause_ms(15);
    printf("thread %d of %d\n", gettid(), getpid());
    exit(5);
}

int main(void)
{
    pthread_t thread;
    pthread_create(&thread, NULL, run, NULL);
    pthread_exit(NULL);
}
