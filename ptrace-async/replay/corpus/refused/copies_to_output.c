// sendfile and splice to the standard output are refused, and the program writes itself.
// refused: sendfile splice
#include "corpus.h"
#include <sys/sendfile.h>

static void copy(int from)
{
    char text[64];
    long got;
    while ((got = read(from, text, sizeof text)) > 0)
        write(1, text, got);
}

int main(void)
{
    int fd = OK(open("file", O_RDWR | O_CREAT, 0600)), ends[2];
    char text[64] = {};
    int length = sprintf(text, "%d sends a file\n", getpid());
    write(fd, text, length);
    off_t at = 0;
    lseek(fd, 0, SEEK_SET);
    if (sendfile(1, fd, &at, length) == -1 && errno == EINVAL)
        copy(fd);
    OK(pipe(ends));
    write(ends[1], text, length);
    close(ends[1]);
    if (splice(ends[0], NULL, 1, NULL, length, 0) == -1 && errno == EINVAL)
        copy(ends[0]);
}
