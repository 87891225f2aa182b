// POSIX shared memory by its name, between two processes.
// flags: -lrt
#include "corpus.h"

int main(void)
{
    char name[64];
    sprintf(name, "/corpus-%d", getpid());
    pid_t child = fork();
    int fd = OK(shm_open(name, O_RDWR | O_CREAT, 0600));
    OK(ftruncate(fd, 4096));
    volatile int *common = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (!child) {
        common[0] = getpid();
        _exit(0);
    }
    reap(child);
    CHECK(common[0] == child);
    shm_unlink(name);
    printf("%d\n", common[0]);
}
