// What is written through a shared mapping of a file is seen by private ones, but where they
// were written to themselves.
#include "corpus.h"

int main(void)
{
    int fd = OK(open("file", O_RDWR | O_CREAT, 0600));
    OK(ftruncate(fd, 16384));
    // One before, one after.
    volatile long *before = OK(mmap(NULL, 16384, PROT_READ | PROT_WRITE, MAP_PRIVATE, fd, 0));
    CHECK(before[0] == 0);
    before[1024] = 1;
    volatile long *shared = OK(mmap(NULL, 16384, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0));
    volatile long *after = OK(mmap(NULL, 16384, PROT_READ | PROT_WRITE, MAP_PRIVATE, fd, 0));
    for (int i = 0; i < 4; i++) {
        shared[512 * i] = now();
        shared[512 * i + 1] = now();
    }
    for (int i = 0; i < 4; i++)
        printf("%ld %ld\n", before[512 * i], after[512 * i + 1]);
    CHECK(before[0] == shared[0] && after[512] == shared[512]);
    CHECK(before[1024] == 1 && after[1024] == shared[1024]);
    // Nothing is left of what it has written itself.
    OK(madvise((void *)before, 16384, MADV_DONTNEED));
    printf("%ld\n", before[1024]);
    CHECK(before[1024] == shared[1024]);
    // Only to be read, by a descriptor that cannot do more.
    int reads = OK(open("file", O_RDONLY));
    volatile long *read = OK(mmap(NULL, 16384, PROT_READ, MAP_SHARED, reads, 0));
    long time = now();
    CHECK(pwrite(fd, &time, 8, 4096) == 8);
    printf("%ld %ld %ld\n", read[512], after[512], before[513]);
    CHECK(read[512] == time && after[512] == time && before[512] == time);
    // From a file into memory that is a file.
    CHECK(pread(fd, (void *)(shared + 1536), 8, 4096) == 8);
    printf("%ld\n", after[1536]);
    CHECK(after[1536] == time);
}
