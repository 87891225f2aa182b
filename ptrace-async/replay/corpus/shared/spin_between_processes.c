// Two processes that hand a turn to each other in shared memory by spinning.
#include "corpus.h"

int main(void)
{
    volatile int *turn = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    pid_t child = fork();
    int me = !child;
    unsigned long passes = 0;
    for (int i = 0; i < 3; i++) {
        while (*turn != me)
            passes++;
        *turn = !me;
    }
    printf("%d: %lu passes\n", me, passes);
    if (child)
        reap(child);
}
