// clone with CLONE_VM but not CLONE_THREAD: a process in the same memory.
#include "corpus.h"

static volatile int value;

static int run(void *argument)
{
    value = getpid();
    return 5;
}

int main(void)
{
    char *stack = mmap(NULL, 1 << 16, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    pid_t child = OK(clone(run, stack + (1 << 16), CLONE_VM | SIGCHLD, NULL));
    CHECK(reap(child) == 5 && value == child);
    printf("%d\n", value);
}
