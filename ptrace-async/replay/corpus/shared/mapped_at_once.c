// A file that a process opens and maps while another one is about to map it, and writes later.
// flags: -lrt
#include "corpus.h"

#define LENGTH (32 << 20)

int main(void)
{
    char name[64];
    sprintf(name, "/corpus-at-once-%d", getpid());
    pid_t child = OK(fork());
    if (!child) {
        // The parent is about it by now, as a rule.
        usleep(1000);
        int fd = OK(shm_open(name, O_RDWR | O_CREAT, 0600));
        OK(ftruncate(fd, LENGTH));
        volatile int *common = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
        // Whoever does not wait for it has read by then.
        for (volatile int i = 0; i < 30000000; i++)
            ;
        common[0] = getpid();
        _exit(0);
    }
    int fd = OK(shm_open(name, O_RDWR | O_CREAT, 0600));
    OK(ftruncate(fd, LENGTH));
    // To make all its pages takes a while.
    int flags = MAP_SHARED | MAP_POPULATE;
    volatile int *common = mmap(NULL, LENGTH, PROT_READ | PROT_WRITE, flags, fd, 0);
    reap(child);
    CHECK(common[0] == child);
    shm_unlink(name);
    printf("%d\n", common[0]);
}
