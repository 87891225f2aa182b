// membarrier: what the kernel has of it, and one barrier.
#include "corpus.h"

int main(void)
{
    long has = syscall(SYS_membarrier, 0, 0, 0);
    printf("%lx\n", has);
    if (has > 0 && has & 16) {
        OK(syscall(SYS_membarrier, 16, 0, 0));
        OK(syscall(SYS_membarrier, 8, 0, 0));
    }
}
