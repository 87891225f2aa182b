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
    alarm_every_ms(20);
    CHECK(pause() == -1 && errno == EINTR);
    printf("alarm at %ld\n", at);
    CHECK(at);
}
