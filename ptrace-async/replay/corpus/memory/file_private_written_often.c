// A file is written in a loop, mapped, written on, unmapped, and so on: by calls that an
// interception may take for harmless.
#include "corpus.h"

static void write_all(int fd, long *last, int times)
{
    for (int i = 0; i < times; i++) {
        long time = now();
        last[i % 1024] = time;
        CHECK(pwrite(fd, &time, 8, i % 1024 * 8) == 8);
    }
}

int main(void)
{
    long last[1024] = {0};
    int fd = OK(open("file", O_RDWR | O_CREAT | O_EXCL, 0600));
    int same = OK(dup(fd));
    int other = OK(open("other", O_RDWR | O_CREAT | O_EXCL, 0600));
    OK(ftruncate(fd, 8192));
    for (int round = 0; round < 4; round++) {
        write_all(fd, last, 2000);
        write_all(same, last, 2000);
        long *file = OK(mmap(NULL, 8192, PROT_READ, MAP_PRIVATE, fd, 0));
        CHECK(memcmp(file, last, 8192) == 0);
        write_all(fd, last, 50);
        printf("%ld %ld\n", file[3], file[49]);
        CHECK(memcmp(file, last, 8192) == 0);
        write_all(same, last, 30);
        printf("%ld\n", file[7]);
        CHECK(memcmp(file, last, 8192) == 0);
        // Not this one.
        long nothing[1024];
        write_all(other, nothing, 100);
        OK(ftruncate(fd, 4096));
        OK(ftruncate(fd, 8192));
        memset(last + 512, 0, 4096);
        CHECK(memcmp(file, last, 8192) == 0);
        OK(munmap(file, 8192));
    }
    // Again while its times are the same, maybe.
    for (int round = 0; round < 20; round++) {
        write_all(fd, last, 1);
        long *file = OK(mmap(NULL, 8192, PROT_READ, MAP_PRIVATE, fd, 0));
        printf("%ld\n", file[0]);
        CHECK(file[0] == last[0]);
        OK(munmap(file, 8192));
    }
}
