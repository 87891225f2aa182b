// The main thread ends first, and then all others: status 0.
// flags: -pthread
#include "corpus.h"

static void *run(void *unused)
{
    pause_ms(10);
    printf("thread %d\n", gettid());
    return NULL;
}

int main(void)
{
    pthread_t thread;
    for (int i = 0; i < 3; i++)
        pthread_create(&thread, NULL, run, NULL);
    pthread_exit(NULL);
}
