// A file that one process has mapped privately is written by others: by a child that has its
// descriptor, and by one that opens it; and seen without a call in between.
#include "corpus.h"

static void writes(int fd)
{
    for (int i = 0; i < 50; i++) {
        long time = now();
        CHECK(pwrite(fd, &time, 8, 8 * i) == 8);
        for (volatile int wait = 0; wait < 1000; wait++)
            ;
    }
    long last = 1;
    CHECK(pwrite(fd, &last, 8, 8 * 50) == 8);
    _exit(0);
}

int main(int argc, char **argv)
{
    if (argc > 1)
        writes(OK(open("file", O_WRONLY)));
    int fd = OK(open("file", O_RDWR | O_CREAT, 0600));
    OK(ftruncate(fd, 4096));
    for (int round = 0; round < 3; round++) {
        volatile long *file = OK(mmap(NULL, 4096, PROT_READ, MAP_PRIVATE, fd, 0));
        CHECK(file[50] == 0);
        pid_t child = fork();
        if (!child) {
            if (round == 1)
                execl("/proc/self/exe", "writes", "other", NULL);
            munmap((void *)file, 4096);
            writes(fd);
        }
        long seen[50] = {0}, sum = 0;
        while (!file[50]) {
            for (int i = 0; i < 50; i++)
                if (!seen[i] && file[i])
                    seen[i] = file[i] + sum;
            sum++;
        }
        for (int i = 0; i < 50; i++)
            printf("%ld ", seen[i]);
        printf("\n%ld\n", sum);
        CHECK(file[49] && reap(child) == 0);
        OK(munmap((void *)file, 4096));
        OK(ftruncate(fd, 0));
        OK(ftruncate(fd, 4096));
    }
}
