// SIGPIPE ends who writes where nobody reads.
// status: signal 13
#include "corpus.h"

int main(void)
{
    int ends[2];
    OK(pipe(ends));
    close(ends[0]);
    signal(SIGPIPE, SIG_IGN);
    CHECK(write(ends[1], "x", 1) == -1 && errno == EPIPE);
    signal(SIGPIPE, SIG_DFL);
    write(ends[1], "x", 1);
}
