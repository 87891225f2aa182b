// nanosleep, clock_nanosleep to a time, usleep.
#include "corpus.h"

int main(void)
{
    struct timespec at, left = {};
    long start = now();
    pause_ms(3);
    clock_gettime(CLOCK_MONOTONIC, &at);
    at.tv_nsec += 4000000;
    if (at.tv_nsec >= 1000000000) {
        at.tv_nsec -= 1000000000;
        at.tv_sec++;
    }
    CHECK(clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &at, NULL) == 0);
    at = (struct timespec){0, 2000000};
    CHECK(clock_nanosleep(CLOCK_REALTIME, 0, &at, &left) == 0);
    usleep(100);
    printf("%ld\n", now() - start);
    CHECK(now() - start >= 9000000);
}
