// Two programs map one file: the second one when the first one has ended.
#include "corpus.h"

static int change(int me)
{
    int fd = OK(open("file", O_RDWR));
    volatile unsigned *common = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    unsigned sum = common[0];
    for (int i = 0; i < 1000; i++) {
        common[0] = sum = sum * 3 + me + common[i];
        if (i % 100 == 0)
            sched_yield();
    }
    printf("%u\n", sum);
    return 0;
}

int main(int argc, char **argv)
{
    if (argc > 1)
        return change(atoi(argv[1]));
    int fd = OK(open("file", O_RDWR | O_CREAT, 0600));
    OK(ftruncate(fd, 4096));
    for (int i = 1; i <= 4; i++) {
        int status;
        fflush(stdout);
        if (!OK(fork())) {
            char number[2] = {'0' + i};
            execl("/proc/self/exe", "changes", number, NULL);
            _exit(1);
        }
        CHECK(wait(&status) > 0 && status == 0);
    }
}
