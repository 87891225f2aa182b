// A call that nobody knows, and an ioctl that nobody knows.
// refused: unknown ioctl
#include "corpus.h"
#include <sys/ioctl.h>

int main(void)
{
    CHECK(syscall(5000) == -1 && errno == ENOSYS);
    int fd = OK(open("/dev/null", O_RDWR));
    CHECK(ioctl(fd, 0xabcd1234, &fd) == -1 && errno == ENOTTY);
    printf("%d\n", getpid());
}
