// Calls with addresses that cannot be used fail with EFAULT.
#include "corpus.h"

int main(void)
{
    char *bad = (char *)8;
    struct timespec time = {0, 1};
    CHECK(write(1, bad, 10) == -1 && errno == EFAULT);
    CHECK(open(bad, O_RDONLY) == -1 && errno == EFAULT);
    CHECK(syscall(SYS_clock_gettime, CLOCK_REALTIME, bad) == -1 && errno == EFAULT);
    CHECK(syscall(SYS_nanosleep, bad, &time) == -1 && errno == EFAULT);
    CHECK(read(0, bad, 10) <= 0);
    CHECK(syscall(SYS_uname, bad) == -1 && errno == EFAULT);
    CHECK(pipe((int *)bad) == -1 && errno == EFAULT);
    CHECK(syscall(SYS_getrandom, bad, 10, 0) == -1 && errno == EFAULT);
}
