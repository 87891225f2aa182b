// Calls whose buffers end in memory that is not there.
#include "corpus.h"
#include <sys/uio.h>

int main(void)
{
    char *pages = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    munmap(pages + 4096, 4096);
    int fd = OK(open("/dev/urandom", O_RDONLY)), ends[2];
    long got = read(fd, pages + 4000, 200);
    printf("read %ld: %d\n", got, pages[4050]);
    OK(pipe(ends));
    write(ends[1], "0123456789", 10);
    struct iovec into[2] = {{pages + 4090, 6}, {pages + 4096, 10}};
    got = readv(ends[0], into, 2);
    printf("readv %ld: %.6s\n", got, pages + 4090);
}
