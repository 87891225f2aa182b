// nice, getpriority, setpriority, ioprio.
#include "corpus.h"

int main(void)
{
    errno = 0;
    int before = getpriority(PRIO_PROCESS, 0);
    CHECK(errno == 0);
    CHECK(nice(3) == before + 3 || before + 3 > 19);
    OK(setpriority(PRIO_PROCESS, 0, 19));
    CHECK(getpriority(PRIO_PROCESS, 0) == 19);
    printf("%d, %ld\n", before, syscall(SYS_ioprio_get, 1, 0));
}
