// getrandom, /dev/urandom and /dev/random.
#include "corpus.h"
#include <sys/random.h>

int main(void)
{
    unsigned char bytes[40];
    CHECK(getrandom(bytes, 16, 0) == 16);
    CHECK(getrandom(bytes + 16, 8, GRND_NONBLOCK) == 8);
    int fd = OK(open("/dev/urandom", O_RDONLY));
    CHECK(read(fd, bytes + 24, 16) == 16);
    for (int i = 0; i < 40; i++)
        printf("%02x", bytes[i]);
    putchar('\n');
    char name[] = "temporary-XXXXXX";
    OK(mkstemp(name));
    puts(name);
}
