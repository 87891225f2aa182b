// A process whose memory nobody may read or dump: its calls are recorded all the same.
#include "corpus.h"
#include <sys/prctl.h>

int main(void)
{
    char text[32] = {};
    int ends[2];
    OK(prctl(PR_SET_DUMPABLE, 0));
    CHECK(prctl(PR_GET_DUMPABLE) == 0);
    CHECK(prctl(PR_SET_DUMPABLE, 7) == -1 && errno == EINVAL);
    OK(pipe(ends));
    for (int round = 0; round < 50; round++) {
        int length = sprintf(text, "%ld", now());
        CHECK(write(ends[1], text, length) == length);
        memset(text, 0, sizeof text);
        CHECK(read(ends[0], text, sizeof text) == length);
    }
    puts(text);
    fflush(stdout);
    pid_t child = fork();
    if (!child)
        _exit(prctl(PR_GET_DUMPABLE));
    CHECK(reap(child) == 0);
    child = fork();
    if (!child) {
        execl("/bin/sh", "sh", "-c", "read _ < /proc/self/stat && exit 5", NULL);
        _exit(1);
    }
    CHECK(reap(child) == 5);
    OK(prctl(PR_SET_DUMPABLE, 1));
    CHECK(prctl(PR_GET_DUMPABLE) == 1);
}
