// What sa_mask blocks waits for the end of the handler.
#include "corpus.h"

static volatile int first, second;

static void second_handler(int signal)
{
    CHECK(first == 2);
    second++;
}

static void first_handler(int signal)
{
    first = 1;
    raise(SIGUSR2);
    CHECK(second == 0);
    first = 2;
}

int main(void)
{
    struct sigaction action = {.sa_handler = first_handler};
    sigaddset(&action.sa_mask, SIGUSR2);
    sigaction(SIGUSR1, &action, NULL);
    handle(SIGUSR2, second_handler, 0);
    raise(SIGUSR1);
    CHECK(second == 1);
}
