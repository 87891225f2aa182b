// SIGALRM while the program sleeps.
#include "corpus.h"

static volatile long at;

static void note(int signal)
{
    at = now();
}

int main(void)
{
    handle(SIGALRM, note, 0);
    ualarm(20000, 0);
    CHECK(pause() == -1 && errno == EINTR);
    printf("alarm at %ld\n", at);
    CHECK(at);
}
