// Two processes that count in shared memory without waiting for each other.
#include "corpus.h"

int main(void)
{
    volatile int *common = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    pid_t child = fork();
    for (int i = 0; i < 200; i++) {
        int seen = *common;
        if (i % 5 == 0)
            sched_yield();
        *common = seen + 1;
        common[1 + i % 100] = seen;
    }
    if (!child)
        _exit(0);
    reap(child);
    for (int i = 0; i < 101; i++)
        printf("%d ", common[i]);
    putchar('\n');
}
