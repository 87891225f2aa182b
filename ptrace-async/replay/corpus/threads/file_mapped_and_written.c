// One thread writes a file that another one has mapped privately, and watches.
#include "corpus.h"

static int fd;
static volatile int watched;

static void *writes(void *unused)
{
    while (!watched)
        sched_yield();
    for (int round = 0; round < 10; round++) {
        for (int i = 0; i < 512; i++) {
            long time = now();
            CHECK(pwrite(fd, &time, 8, 8 * i) == 8);
        }
        if (round == 2)
            OK(close(OK(open("file", O_RDWR | O_CREAT, 0600))));
    }
    long last = 1;
    CHECK(pwrite(fd, &last, 8, 4096) == 8);
    return NULL;
}

int main(void)
{
    fd = OK(open("file", O_RDWR | O_CREAT, 0600));
    OK(ftruncate(fd, 8192));
    volatile long *file = OK(mmap(NULL, 8192, PROT_READ, MAP_PRIVATE, fd, 0));
    pthread_t thread;
    CHECK(pthread_create(&thread, NULL, writes, NULL) == 0);
    long seen = 0, changes = 0;
    watched = 1;
    for (int at = 0; !file[512]; at = (at + 1) % 512)
        if (file[at] > seen) {
            seen = file[at];
            changes++;
        }
    printf("%ld %ld\n", seen, changes);
    CHECK(pthread_join(thread, NULL) == 0);
    CHECK(file[511]);
}
