// Resource limits, asked and set, and one that is met.
#include "corpus.h"

int main(void)
{
    for (int i = 0; i < RLIM_NLIMITS; i++) {
        struct rlimit limit;
        OK(getrlimit(i, &limit));
        printf("%d: %ld %ld\n", i, (long)limit.rlim_cur, (long)limit.rlim_max);
    }
    struct rlimit files = {10, 10}, old;
    OK(prlimit(0, RLIMIT_NOFILE, &files, &old));
    int fd;
    do
        fd = dup(1);
    while (fd >= 0);
    CHECK(errno == EMFILE);
}
