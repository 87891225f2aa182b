// A FIFO by its name, opened at both ends.
#include "corpus.h"

int main(void)
{
    OK(mkfifo("fifo", 0600));
    pid_t child = fork();
    if (!child) {
        int fd = OK(open("fifo", O_WRONLY));
        dprintf(fd, "through the fifo from %d", getpid());
        _exit(0);
    }
    char text[64] = {};
    int fd = OK(open("fifo", O_RDONLY));
    CHECK(read(fd, text, sizeof text - 1) > 0);
    puts(text);
    reap(child);
}
