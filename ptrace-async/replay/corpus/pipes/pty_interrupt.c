// Control-C on a pseudo-terminal is SIGINT for its foreground group.
#include "corpus.h"
#include <signal.h>
#include <sys/ioctl.h>
#include <termios.h>

int main(void)
{
    int master = OK(posix_openpt(O_RDWR | O_NOCTTY)), status, ends[2];
    OK(grantpt(master));
    OK(unlockpt(master));
    OK(pipe(ends));
    pid_t child = fork();
    if (!child) {
        // Whoever started this in the background may have it ignored.
        signal(SIGINT, SIG_DFL);
        setsid();
        int fd = OK(open(ptsname(master), O_RDWR));
        OK(ioctl(fd, TIOCSCTTY, 0));
        CHECK(tcgetpgrp(fd) == getpid());
        write(ends[1], "x", 1);
        for (;;)
            pause();
    }
    char byte;
    read(ends[0], &byte, 1);
    write(master, "\003", 1);
    CHECK(waitpid(child, &status, 0) == child && WTERMSIG(status) == SIGINT);
}
