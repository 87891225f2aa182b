// Two programs, each executed, map one file and count in it.
#include "corpus.h"

static int count(const char *path, int me)
{
    int fd = OK(open(path, O_RDWR));
    volatile int *common = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    for (int i = 0; i < 100; i++) {
        int at = __atomic_fetch_add(common, 1, __ATOMIC_SEQ_CST);
        common[1 + at] = me;
        if (i % 10 == 0)
            sched_yield();
    }
    return 0;
}

int main(int argc, char **argv)
{
    if (argc > 1)
        return count("file", atoi(argv[1]));
    int fd = OK(open("file", O_RDWR | O_CREAT, 0600));
    OK(ftruncate(fd, 4096));
    for (int i = 1; i <= 2; i++)
        if (!fork()) {
            char number[2] = {'0' + i};
            execl("/proc/self/exe", "counts", number, NULL);
            _exit(1);
        }
    for (int i = 0; i < 2; i++) {
        int status;
        CHECK(wait(&status) > 0 && status == 0);
    }
    int order[201];
    CHECK(pread(fd, order, sizeof order, 0) == sizeof order && order[0] == 200);
    for (int i = 1; i <= 200; i++)
        putchar('0' + order[i]);
    putchar('\n');
}
