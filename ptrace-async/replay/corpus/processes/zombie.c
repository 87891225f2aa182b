// A zombie, seen in /proc before it is waited for.
#include "corpus.h"

int main(void)
{
    char path[64], text[512] = {};
    pid_t child = fork();
    if (!child)
        _exit(0);
    siginfo_t info;
    OK(waitid(P_PID, child, &info, WEXITED | WNOWAIT));
    sprintf(path, "/proc/%d/stat", child);
    int fd = OK(open(path, O_RDONLY));
    CHECK(read(fd, text, sizeof text - 1) > 0);
    CHECK(strstr(text, ") Z "));
    puts(text);
    reap(child);
}
