// sendfile from a file to a pipe, with and without an offset.
#include "corpus.h"
#include <sys/sendfile.h>

int main(void)
{
    int fd = OK(open("file", O_RDWR | O_CREAT, 0600)), ends[2];
    char text[64] = {};
    int length = sprintf(text, "%d sends a file", getpid());
    write(fd, text, length);
    OK(pipe(ends));
    off_t at = 2;
    CHECK(sendfile(ends[1], fd, &at, 5) == 5 && at == 7);
    lseek(fd, 0, SEEK_SET);
    CHECK(sendfile(ends[1], fd, NULL, 100) == length);
    memset(text, 0, sizeof text);
    CHECK(read(ends[0], text, sizeof text - 1) == length + 5);
    puts(text);
}
