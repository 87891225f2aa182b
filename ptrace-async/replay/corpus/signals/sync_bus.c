// SIGBUS behind the end of a mapped file.
#include "corpus.h"
#include <setjmp.h>

static sigjmp_buf back;

static void fault(int signal, siginfo_t *info, void *context)
{
    CHECK(info->si_code == BUS_ADRERR);
    siglongjmp(back, 1);
}

int main(void)
{
    handle_info(SIGBUS, fault, 0);
    int fd = OK(open("file", O_RDWR | O_CREAT, 0600));
    OK(ftruncate(fd, 100));
    volatile char *file = mmap(NULL, 8192, PROT_READ, MAP_PRIVATE, fd, 0);
    CHECK(file[99] == 0 && file[4095] == 0);
    volatile int faults = 0;
    if (!sigsetjmp(back, 1))
        printf("%d\n", file[4096]);
    else
        faults++;
    CHECK(faults == 1);
}
