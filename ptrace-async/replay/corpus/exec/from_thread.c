// A thread that is not the first executes a program; the others end.
// flags: -pthread
#include "corpus.h"

static void *waits(void *unused)
{
    for (;;)
        pause();
}

static void *executes(void *unused)
{
    pause_ms(3);
    execl("/bin/sh", "sh", "-c", "echo $$; exit 0", NULL);
    return NULL;
}

int main(void)
{
    pthread_t thread;
    pthread_create(&thread, NULL, waits, NULL);
    pthread_create(&thread, NULL, executes, NULL);
    pthread_join(thread, NULL);
    return 1;
}
