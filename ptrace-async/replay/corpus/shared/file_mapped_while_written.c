// A process maps a file that another one is writing all the time: what it finds, and what it
// sees later.
#include "corpus.h"

int main(void)
{
    int fd = OK(open("file", O_RDWR | O_CREAT | O_EXCL, 0600)), ends[2];
    OK(ftruncate(fd, 4096));
    OK(pipe2(ends, O_NONBLOCK));
    pid_t child = fork();
    if (!child) {
        char byte;
        for (long i = 1; read(ends[0], &byte, 1) != 1; i++) {
            CHECK(pwrite(fd, &i, 8, 0) == 8);
            CHECK(pwrite(fd, &i, 8, 8) == 8);
        }
        _exit(0);
    }
    long last = 0;
    for (int round = 0; round < 10; round++) {
        int flags = round % 2 ? MAP_SHARED : MAP_PRIVATE;
        int prot = round % 3 ? PROT_READ : PROT_READ | PROT_WRITE;
        volatile long *file = OK(mmap(NULL, 4096, prot, flags, fd, 0));
        long first = file[0], second = file[1];
        printf("%ld %ld\n", first, second);
        CHECK(first >= last);
        while (file[0] < first + 3)
            ;
        last = file[0];
        printf("%ld\n", last);
        OK(munmap((void *)file, 4096));
    }
    CHECK(write(ends[1], "x", 1) == 1);
    CHECK(reap(child) == 0);
}
