// A mapped file is cut and extended: SIGBUS, and then zeros.
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
    OK(ftruncate(fd, 8192));
    volatile char *file = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    file[5000] = 'x';
    OK(ftruncate(fd, 4096));
    volatile int faults = 0;
    if (!sigsetjmp(back, 1))
        file[5000] = 'y';
    else
        faults = 1;
    OK(ftruncate(fd, 8192));
    CHECK(faults == 1 && file[5000] == 0);
}
