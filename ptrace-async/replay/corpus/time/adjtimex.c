// adjtimex, which tells of the clock and is not allowed to change it.
#include "corpus.h"
#include <sys/timex.h>

int main(void)
{
    struct timex timex = {};
    int state = adjtimex(&timex);
    printf("%d: %ld.%06ld, %ld\n", state, (long)timex.time.tv_sec, (long)timex.time.tv_usec, timex.freq);
    CHECK(state >= 0);
}
