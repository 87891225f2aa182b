// Mappings of the middle of a file, and of its last, partial page.
#include "corpus.h"

int main(void)
{
    int fd = OK(open("file", O_RDWR | O_CREAT, 0600));
    for (int i = 0; i < 5; i++) {
        char page[4096];
        memset(page, 'a' + i, 4096);
        CHECK(write(fd, page, i < 4 ? 4096 : 10) > 0);
    }
    char *middle = mmap(NULL, 8192, PROT_READ, MAP_PRIVATE, fd, 8192);
    char *last = mmap(NULL, 4096, PROT_READ, MAP_PRIVATE, fd, 4 * 4096);
    close(fd);
    unlink("file");
    CHECK(middle[0] == 'c' && middle[8191] == 'd' && last[9] == 'e' && last[10] == 0);
    printf("%p %p\n", (void *)middle, (void *)last);
}
