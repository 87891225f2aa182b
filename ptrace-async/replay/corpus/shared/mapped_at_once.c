// A file that two processes map at the same moment, and that one of them writes and is gone.
// flags: -lrt
#include "corpus.h"

int main(void)
{
    long sum = 0;
    for (int round = 0; round < 40; round++) {
        char name[64];
        sprintf(name, "/corpus-%d-%d", getpid(), round);
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
        sum += common[0];
        shm_unlink(name);
        munmap((void *)common, 4096);
        close(fd);
    }
    printf("%ld\n", sum);
}
