// sendfile, splice and copies right to the standard output.
#include "corpus.h"
#include <sys/sendfile.h>

int main(void)
{
    int fd = OK(open("file", O_RDWR | O_CREAT, 0600)), ends[2];
    char text[64] = {};
    int length = sprintf(text, "%d sends a file\n", getpid());
    write(fd, text, length);
    off_t at = 0;
    CHECK(sendfile(1, fd, &at, length) == length);
    OK(pipe(ends));
    write(ends[1], text, length);
    CHECK(splice(ends[0], NULL, 1, NULL, length, 0) == length);
}
