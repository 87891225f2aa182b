// All clocks, their resolutions, by the library and by calls.
#include "corpus.h"

int main(void)
{
    for (int clock = 0; clock < 12; clock++) {
        struct timespec at, resolution;
        if (clock_gettime(clock, &at) || clock_getres(clock, &resolution))
            continue;
        printf("%d: %ld.%09ld, %ld\n", clock, at.tv_sec, at.tv_nsec, resolution.tv_nsec);
    }
    struct timeval time_of_day;
    OK(gettimeofday(&time_of_day, NULL));
    printf("%ld.%06ld %ld\n", (long)time_of_day.tv_sec, (long)time_of_day.tv_usec, (long)time(NULL));
    struct timespec at;
    OK(syscall(SYS_clock_gettime, CLOCK_REALTIME, &at));
    OK(syscall(SYS_time, NULL));
    clockid_t own;
    CHECK(clock_getcpuclockid(0, &own) == 0);
    OK(clock_gettime(own, &at));
    printf("%ld %ld\n", at.tv_nsec, (long)clock());
}
