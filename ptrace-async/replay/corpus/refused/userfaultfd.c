// userfaultfd is refused.
// refused: userfaultfd
#include "corpus.h"

int main(void)
{
    long fd = syscall(SYS_userfaultfd, 1);
    printf("%ld %d\n", fd, fd < 0 ? errno : 0);
}
