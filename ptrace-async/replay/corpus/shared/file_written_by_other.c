// A process maps a file that another one, which does not map it, writes.
#include "corpus.h"

int main(void)
{
    int fd = OK(open("file", O_RDWR | O_CREAT, 0600)), ends[2];
    OK(ftruncate(fd, 4096));
    OK(pipe(ends));
    volatile long *common = mmap(NULL, 4096, PROT_READ, MAP_SHARED, fd, 0);
    pid_t child = fork();
    if (!child) {
        munmap((void *)common, 4096);
        for (int i = 0; i < 5; i++) {
            long time = now();
            CHECK(pwrite(fd, &time, 8, 8 * i) == 8);
            write(ends[1], "x", 1);
        }
        _exit(0);
    }
    for (int i = 0; i < 5; i++) {
        char byte;
        CHECK(read(ends[0], &byte, 1) == 1);
        printf("%ld\n", common[i]);
        CHECK(common[i]);
    }
    reap(child);
}
