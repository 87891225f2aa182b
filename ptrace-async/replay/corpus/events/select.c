// select and pselect, with the time that is left.
#include "corpus.h"
#include <sys/select.h>

int main(void)
{
    int ends[2];
    fd_set set;
    OK(pipe(ends));
    FD_ZERO(&set);
    FD_SET(ends[0], &set);
    struct timeval timeout = {0, 3000};
    CHECK(select(ends[0] + 1, &set, NULL, NULL, &timeout) == 0 && !FD_ISSET(ends[0], &set));
    pid_t child = fork();
    if (!child) {
        pause_ms(3);
        write(ends[1], "x", 1);
        _exit(0);
    }
    FD_SET(ends[0], &set);
    timeout = (struct timeval){5, 0};
    CHECK(select(ends[0] + 1, &set, NULL, NULL, &timeout) == 1 && FD_ISSET(ends[0], &set));
    printf("%ld.%06ld left\n", (long)timeout.tv_sec, (long)timeout.tv_usec);
    struct timespec time = {0, 1000};
    CHECK(pselect(ends[0] + 1, &set, NULL, NULL, &time, NULL) == 1);
    reap(child);
}
