// A handler is called for a signal that the program sends itself.
#include "corpus.h"

static volatile int count;

static void note(int signal)
{
    int local;
    count++;
    printf("handler on %p\n", (void *)&local);
}

int main(void)
{
    handle(SIGUSR1, note, 0);
    for (int i = 0; i < 3; i++)
        raise(SIGUSR1);
    kill(getpid(), SIGUSR1);
    CHECK(count == 4);
}
