// setitimer and getitimer, of all three kinds.
#include "corpus.h"

static volatile int alarms;

static void note(int signal)
{
    alarms++;
}

int main(void)
{
    struct itimerval timer = {{0, 3000}, {0, 3000}}, left;
    handle(SIGALRM, note, SA_RESTART);
    OK(setitimer(ITIMER_REAL, &timer, NULL));
    while (alarms < 3)
        pause();
    OK(getitimer(ITIMER_REAL, &left));
    printf("%ld left\n", (long)left.it_value.tv_usec);
    timer = (struct itimerval){};
    OK(setitimer(ITIMER_REAL, &timer, &left));
    timer.it_value.tv_sec = 100;
    OK(setitimer(ITIMER_VIRTUAL, &timer, NULL));
    OK(setitimer(ITIMER_PROF, &timer, NULL));
    OK(getitimer(ITIMER_PROF, &left));
    CHECK(left.it_value.tv_sec >= 99);
}
