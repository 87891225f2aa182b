// A private mapping is moved, taken apart and covered while its file is written; what is left
// shows it.
#include "corpus.h"

int main(void)
{
    const long page = 4096;
    int fd = OK(open("file", O_RDWR | O_CREAT, 0600));
    OK(ftruncate(fd, 16 * page));
    char *file = OK(mmap(NULL, 16 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE, fd, 0));
    char *place = OK(mmap(NULL, 64 * page, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    long time;
#define WRITTEN(at, offset)                                                        \
    do {                                                                           \
        time = now();                                                              \
        CHECK(pwrite(fd, &time, 8, offset) == 8);                                  \
        printf("%ld\n", *(volatile long *)(at));                                   \
        CHECK(*(volatile long *)(at) == time);                                     \
    } while (0)
    WRITTEN(file, 0);
    // The first page goes elsewhere, and the last is all that is left at its place.
    char *first = OK(mremap(file, page, 2 * page, MREMAP_MAYMOVE | MREMAP_FIXED, place));
    OK(munmap(file + page, 14 * page));
    WRITTEN(first + 8, 8);
    WRITTEN(first, 0);
    WRITTEN(first + page, page);
    WRITTEN(file + 15 * page, 15 * page);
    OK(mmap(file + 15 * page, page, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0));
    WRITTEN(first + page, page);
    // Grown at its place, or not.
    first = OK(mremap(first, 2 * page, 8 * page, MREMAP_MAYMOVE));
    WRITTEN(first + 7 * page, 7 * page);
    // A child has it as well, and the parent no more.
    int ends[2];
    OK(pipe(ends));
    pid_t child = fork();
    if (!child) {
        char byte;
        CHECK(read(ends[0], &byte, 1) == 1);
        WRITTEN(first + 6 * page, 6 * page);
        printf("%ld\n", *(volatile long *)(first + 5 * page));
        CHECK(*(volatile long *)(first + 5 * page));
        _exit(0);
    }
    OK(munmap(first, 8 * page));
    time = now();
    CHECK(pwrite(fd, &time, 8, 5 * page) == 8);
    CHECK(write(ends[1], "x", 1) == 1);
    CHECK(reap(child) == 0);
    // Filled when it was mapped: what is written later is not seen where it may be written.
    file = OK(mmap(NULL, 16 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_POPULATE, fd, 0));
    time = now();
    CHECK(pwrite(fd, &time, 8, 0) == 8);
    printf("%ld\n", *(volatile long *)file);
    CHECK(*(volatile long *)file != time);
    // So it is where it is locked.
    char *locked = OK(mmap(NULL, 4 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE, fd, 0));
    OK(mlock(locked + page, 100));
    OK(mlock2(locked + 2 * page, page, MLOCK_ONFAULT));
    for (int i = 0; i < 3; i++) {
        time = now();
        CHECK(pwrite(fd, &time, 8, i * page) == 8);
        printf("%ld\n", *(volatile long *)(locked + i * page));
        CHECK((*(volatile long *)(locked + i * page) == time) == (i != 1));
    }
}
