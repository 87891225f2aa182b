// The vsyscall page, if the kernel still has one.
#include "corpus.h"

static void fault(int signal)
{
    printf("no vsyscall\n");
    exit(0);
}

int main(void)
{
    handle(SIGSEGV, fault, 0);
    long (*time_)(long *) = (long (*)(long *))0xffffffffff600400;
    int (*gettimeofday_)(struct timeval *, void *) = (void *)0xffffffffff600000;
    int (*getcpu_)(unsigned *, unsigned *, void *) = (void *)0xffffffffff600800;
    long now;
    struct timeval precise;
    unsigned cpu = 99, node = 99;
    CHECK(time_(&now) == now && now > 1000000000);
    CHECK(gettimeofday_(&precise, NULL) == 0);
    CHECK(precise.tv_sec == now || precise.tv_sec == now + 1);
    CHECK(getcpu_(&cpu, &node, NULL) == 0 && node != 99);
    printf("%ld %ld %ld %u\n", time_(NULL), now, precise.tv_usec, cpu);
}
