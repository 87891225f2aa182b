// SIGPROF by the processor's time, in a loop with calls.
#include "corpus.h"

static volatile int alarms;

static void note(int signal)
{
    alarms++;
}

int main(void)
{
    struct itimerval timer = {{0, 5000}, {0, 5000}};
    handle(SIGPROF, note, SA_RESTART);
    OK(setitimer(ITIMER_PROF, &timer, NULL));
    long rounds = 0;
    while (alarms < 2 && rounds < 10000000) {
        syscall(SYS_getppid);
        rounds++;
    }
    printf("%ld rounds\n", rounds);
    CHECK(alarms >= 2);
}
