// A tight loop that only a signal ends.
#include "corpus.h"

static volatile int over;

static void note(int signal)
{
    over = 1;
}

int main(void)
{
    handle(SIGALRM, note, 0);
    ualarm(30000, 0);
    volatile unsigned long passes = 0;
    while (!over)
        passes++;
    printf("%lu passes\n", passes);
}
