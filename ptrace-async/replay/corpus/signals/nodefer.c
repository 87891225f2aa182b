// SA_NODEFER: a handler interrupts itself.
#include "corpus.h"

static volatile int depth;

static void note(int signal)
{
    if (++depth < 6)
        raise(signal);
}

int main(void)
{
    handle(SIGUSR1, note, SA_NODEFER);
    raise(SIGUSR1);
    CHECK(depth == 6);
}
