// vfork: the child uses the parent's memory until it ends.
#include "corpus.h"

int main(void)
{
    volatile int value = 1;
    pid_t child = vfork();
    if (!child) {
        value = getpid();
        _exit(4);
    }
    printf("%d\n", value);
    CHECK(reap(child) == 4 && value == child);
}
