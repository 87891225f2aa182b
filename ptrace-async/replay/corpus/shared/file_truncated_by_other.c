// Another process truncates a file while this one has it mapped: in the end it faults.
#include "corpus.h"
#include <setjmp.h>

static sigjmp_buf back;

static void fault(int signal)
{
    siglongjmp(back, 1);
}

int main(void)
{
    handle(SIGBUS, fault, 0);
    int fd = OK(open("file", O_RDWR | O_CREAT, 0600));
    for (int round = 0; round < 6; round++) {
        long time = now() | 1;
        CHECK(pwrite(fd, &time, 8, 0) == 8);
        int flags = round % 2 ? MAP_SHARED : MAP_PRIVATE;
        volatile long *file = OK(mmap(NULL, 4096, PROT_READ, flags, fd, 0));
        CHECK(file[0] == time);
        pid_t child = fork();
        if (!child) {
            if (round < 2)
                OK(open("file", O_WRONLY | O_TRUNC));
            else if (round < 4)
                OK(truncate("file", 0));
            else
                OK(ftruncate(fd, 0));
            _exit(0);
        }
        volatile long reads = 0;
        if (!sigsetjmp(back, 1))
            for (;;)
                reads += file[0] & 1;
        printf("%ld times\n", reads);
        CHECK(reap(child) == 0);
        OK(munmap((void *)file, 4096));
    }
}
