// A pseudo-terminal: a child speaks on it, in both modes.
#include "corpus.h"
#include <sys/ioctl.h>
#include <termios.h>

int main(void)
{
    struct winsize size = {24, 80};
    char text[256] = {};
    int master = OK(posix_openpt(O_RDWR | O_NOCTTY));
    OK(grantpt(master));
    OK(unlockpt(master));
    puts(ptsname(master));
    pid_t child = fork();
    if (!child) {
        setsid();
        int fd = OK(open(ptsname(master), O_RDWR));
        struct termios mode;
        OK(tcgetattr(fd, &mode));
        mode.c_lflag &= ~ECHO;
        OK(tcsetattr(fd, TCSANOW, &mode));
        OK(ioctl(fd, TIOCGWINSZ, &size));
        dprintf(fd, "size %d\n", size.ws_col);
        char line[64] = {};
        CHECK(read(fd, line, sizeof line - 1) > 0);
        dprintf(fd, "got %s", line);
        CHECK(isatty(fd));
        char byte;
        read(fd, &byte, 1);
        _exit(0);
    }
    OK(ioctl(master, TIOCSWINSZ, &size));
    int got = OK(read(master, text, sizeof text - 1));
    write(master, "hello\n", 6);
    while (!memchr(text, 'g', got) || text[got - 1] != '\n')
        got += OK(read(master, text + got, sizeof text - 1 - got));
    printf("%s", text);
    write(master, "\n", 1);
    reap(child);
}
