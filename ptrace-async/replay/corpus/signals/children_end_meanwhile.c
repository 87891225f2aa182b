// Children end while their parent computes and is interrupted, which nobody waits for.
#include "corpus.h"

static volatile int ticks;

static void note(int signal)
{
    ticks++;
}

int main(void)
{
    for (int child = 0; child < 12; child++)
        if (OK(fork()) == 0) {
            pause_ms(2 * child);
            _exit(child);
        }
    handle(SIGVTALRM, note, 0);
    struct itimerval timer = {{0, 4000}, {0, 4000}};
    setitimer(ITIMER_VIRTUAL, &timer, NULL);
    unsigned long rounds = 0;
    while (ticks < 6)
        rounds = rounds * 31 + 7;
    printf("%lx\n", rounds);
    int sum = 0, status;
    while (wait(&status) > 0)
        sum += WEXITSTATUS(status);
    printf("%d\n", sum);
    CHECK(sum == 66);
}
