// fcntl: owners of descriptors, signals for input.
#include "corpus.h"

static volatile int told;

static void note(int signal)
{
    told = 1;
}

int main(void)
{
    int ends[2];
    OK(pipe(ends));
    handle(SIGIO, note, 0);
    OK(fcntl(ends[0], F_SETOWN, getpid()));
    CHECK(fcntl(ends[0], F_GETOWN) == getpid());
    OK(fcntl(ends[0], F_SETFL, O_ASYNC | O_NONBLOCK));
    write(ends[1], "x", 1);
    for (int i = 0; !told && i < 100; i++)
        pause_ms(1);
    CHECK(told);
    printf("pipe of %d bytes\n", fcntl(ends[0], F_GETPIPE_SZ));
}
