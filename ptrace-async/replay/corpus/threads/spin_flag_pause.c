// A thread that spins with the pause instruction until another one has set a flag.
// flags: -pthread
#include "corpus.h"

static volatile int flag;

static void *run(void *unused)
{
    pause_ms(20);
    flag = 1;
    return NULL;
}

int main(void)
{
    pthread_t thread;
    pthread_create(&thread, NULL, run, NULL);
    while (!flag)
        __builtin_ia32_pause();
    pthread_join(thread, NULL);
    printf("flag at %ld\n", now());
}
