// The first thread executes a program while others make calls.
// flags: -pthread
#include "corpus.h"

static void *calls(void *unused)
{
    for (;;)
        getppid();
}

int main(void)
{
    pthread_t thread;
    for (int i = 0; i < 3; i++)
        pthread_create(&thread, NULL, calls, NULL);
    pause_ms(5);
    execl("/bin/echo", "echo", "executed", NULL);
    return 1;
}
