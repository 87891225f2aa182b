// SIGEV_THREAD: a timer that makes threads.
// flags: -pthread -lrt
#include "corpus.h"
#include <semaphore.h>

static sem_t done;

static void expired(union sigval value)
{
    printf("expired %d in %d\n", value.sival_int, gettid());
    sem_post(&done);
}

int main(void)
{
    timer_t timer;
    struct sigevent event = {.sigev_notify = SIGEV_THREAD, .sigev_notify_function = expired,
                             .sigev_value.sival_int = 7};
    struct itimerspec spec = {{0, 3000000}, {0, 3000000}};
    sem_init(&done, 0, 0);
    OK(timer_create(CLOCK_MONOTONIC, &event, &timer));
    OK(timer_settime(timer, 0, &spec, NULL));
    for (int i = 0; i < 3; i++)
        while (sem_wait(&done))
            ;
}
