// Without SA_RESTART a read ends with EINTR.
#include "corpus.h"

static void note(int signal)
{
}

int main(void)
{
    int ends[2];
    char byte;
    OK(pipe(ends));
    handle(SIGALRM, note, 0);
    alarm_every_ms(10);
    CHECK(read(ends[0], &byte, 1) == -1 && errno == EINTR);
}
