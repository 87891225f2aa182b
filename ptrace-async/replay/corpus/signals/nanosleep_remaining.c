// nanosleep that a handler interrupts tells what remains.
#include "corpus.h"

static void note(int signal)
{
}

int main(void)
{
    handle(SIGALRM, note, 0);
    alarm_every_ms(10);
    struct timespec time = {1, 0}, left = {};
    CHECK(nanosleep(&time, &left) == -1 && errno == EINTR);
    printf("%ld.%09ld s remain\n", left.tv_sec, left.tv_nsec);
    CHECK(left.tv_nsec > 0);
}
