// SA_RESETHAND: the second signal ends the program.
// status: signal 10
#include "corpus.h"

static void note(int signal)
{
    write(1, "once\n", 5);
}

int main(void)
{
    handle(SIGUSR1, note, SA_RESETHAND);
    raise(SIGUSR1);
    raise(SIGUSR1);
}
