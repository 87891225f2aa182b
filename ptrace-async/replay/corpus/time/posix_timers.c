// timer_create with signals that carry a value, and their overruns.
// flags: -lrt
#include "corpus.h"

static volatile int count, value, overruns;
static timer_t timer;

static void note(int signal, siginfo_t *info, void *context)
{
    count++;
    value = info->si_value.sival_int;
    overruns += info->si_overrun;
}

int main(void)
{
    struct sigevent event = {.sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGRTMIN + 1,
                             .sigev_value.sival_int = 4711};
    struct itimerspec spec = {{0, 2000000}, {0, 2000000}}, left;
    handle_info(SIGRTMIN + 1, note, SA_RESTART);
    OK(timer_create(CLOCK_MONOTONIC, &event, &timer));
    OK(timer_settime(timer, 0, &spec, NULL));
    while (count < 4)
        pause();
    OK(timer_gettime(timer, &left));
    printf("%d overruns, %d, %ld left\n", overruns, timer_getoverrun(timer), left.it_value.tv_nsec);
    OK(timer_delete(timer));
    CHECK(value == 4711);
}
