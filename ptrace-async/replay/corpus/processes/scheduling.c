// sched_*: policies, parameters, affinity.
#include "corpus.h"

int main(void)
{
    struct sched_param param;
    cpu_set_t set;
    struct timespec interval;
    CHECK(sched_getscheduler(0) >= 0);
    OK(sched_getparam(0, &param));
    printf("%d %d\n", sched_get_priority_max(SCHED_FIFO), sched_get_priority_min(SCHED_RR));
    OK(sched_getaffinity(0, sizeof set, &set));
    printf("%d processors\n", CPU_COUNT(&set));
    OK(sched_setaffinity(0, sizeof set, &set));
    CPU_ZERO(&set);
    CHECK(sched_setaffinity(0, sizeof set, &set) == -1 && errno == EINVAL);
    sched_rr_get_interval(0, &interval);
    printf("%ld\n", interval.tv_nsec);
    param.sched_priority = 0;
    OK(sched_setscheduler(0, SCHED_BATCH, &param));
    CHECK(sched_getscheduler(0) == SCHED_BATCH);
}
