// memfd_secret is refused: a recorder cannot read such memory.
// refused: memfd_secret
#include "corpus.h"

int main(void)
{
    int fd = syscall(SYS_memfd_secret, 0);
    printf("%d %d\n", fd, fd < 0 ? errno : 0);
}
