// CLONE_FILES and CLONE_FS without CLONE_VM: descriptors and directory are common.
#include "corpus.h"

int main(void)
{
    pid_t child = OK(syscall(SYS_clone, CLONE_FILES | CLONE_FS | SIGCHLD, 0, 0, 0, 0));
    if (!child) {
        int fd = open("/dev/null", O_RDONLY);
        chdir("/usr");
        _exit(fd);
    }
    int fd = reap(child);
    char directory[100];
    CHECK(fcntl(fd, F_GETFD) >= 0);
    puts(getcwd(directory, sizeof directory));
    CHECK(strcmp(directory, "/usr") == 0);
}
