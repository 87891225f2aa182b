// A timer's signals while the program computes and makes a call now and then.
#include "corpus.h"

static volatile int count;

static void note(int signal)
{
    count++;
}

int main(void)
{
    handle(SIGALRM, note, SA_RESTART);
    struct itimerval timer = {{0, 2000}, {0, 2000}};
    setitimer(ITIMER_REAL, &timer, NULL);
    volatile unsigned sum = 0;
    int rounds = 0;
    while (count < 10) {
        for (int i = 0; i < 20000; i++)
            sum = sum * 31 + i + count;
        getppid();
        rounds++;
    }
    printf("%d rounds, sum %u\n", rounds, sum);
}
