// A writer that waits because the pipe is full.
#include "corpus.h"

int main(void)
{
    int ends[2];
    static char block[1 << 18];
    OK(pipe(ends));
    pid_t child = fork();
    if (!child) {
        memset(block, getpid(), sizeof block);
        CHECK(write(ends[1], block, sizeof block) == sizeof block);
        _exit(0);
    }
    close(ends[1]);
    long all = 0, got;
    while ((got = read(ends[0], block, 10000)) > 0) {
        all += got;
        printf("%ld ", got);
    }
    printf("\n%ld\n", all);
    CHECK(all == 1 << 18);
    reap(child);
}
