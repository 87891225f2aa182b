// Ten megabytes are written and read in calls of a megabyte.
#include "corpus.h"

int main(void)
{
    static unsigned char block[1 << 20];
    int fd = OK(open("file", O_RDWR | O_CREAT, 0600));
    unsigned sum = 0, read_sum = 0;
    int random = OK(open("/dev/urandom", O_RDONLY));
    for (int i = 0; i < 10; i++) {
        CHECK(read(random, block, sizeof block) == sizeof block);
        for (size_t j = 0; j < sizeof block; j += 101)
            sum = sum * 31 + block[j];
        CHECK(write(fd, block, sizeof block) == sizeof block);
    }
    lseek(fd, 0, SEEK_SET);
    while (read(fd, block, sizeof block) > 0)
        for (size_t j = 0; j < sizeof block; j += 101)
            read_sum = read_sum * 31 + block[j];
    printf("%u\n", sum);
    CHECK(sum == read_sum);
}
