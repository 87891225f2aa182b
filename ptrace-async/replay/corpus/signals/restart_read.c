// SA_RESTART: a read goes on after a handler.
#include "corpus.h"

static volatile int count;

static void note(int signal)
{
    count++;
}

int main(void)
{
    int ends[2];
    OK(pipe(ends));
    handle(SIGALRM, note, SA_RESTART);
    if (!fork()) {
        pause_ms(60);
        write(ends[1], "x", 1);
        _exit(0);
    }
    struct itimerval timer = {{0, 10000}, {0, 10000}};
    setitimer(ITIMER_REAL, &timer, NULL);
    char byte;
    CHECK(read(ends[0], &byte, 1) == 1);
    timer = (struct itimerval){};
    setitimer(ITIMER_REAL, &timer, NULL);
    printf("%d alarms\n", count);
    CHECK(count >= 1);
    wait(NULL);
}
