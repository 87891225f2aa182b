// Mappings of /dev/zero, private and shared.
#include "corpus.h"

int main(void)
{
    int fd = OK(open("/dev/zero", O_RDWR));
    char *own = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE, fd, 0);
    char *common = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    CHECK(own != MAP_FAILED && common != MAP_FAILED);
    own[0] = 1;
    pid_t child = fork();
    if (!child) {
        common[0] = 5;
        _exit(0);
    }
    reap(child);
    CHECK(common[0] == 5 && own[1] == 0);
}
