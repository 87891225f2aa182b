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
    alarm_every_ms(10);
    if (!fork()) {
        pause_ms(60);
        write(ends[1], "x", 1);
        _exit(0);
    }
    char byte;
    CHECK(read(ends[0], &byte, 1) == 1);
    alarm_every_ms(0);
    printf("%d alarms\n", count);
    CHECK(count >= 1);
    wait(NULL);
}
