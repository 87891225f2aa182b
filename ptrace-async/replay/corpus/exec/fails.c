// Executions that fail: nothing there, no rights, no program.
#include "corpus.h"

int main(void)
{
    CHECK(execl("/nowhere", "x", NULL) == -1 && errno == ENOENT);
    CHECK(execl("/", "x", NULL) == -1 && errno == EACCES);
    int fd = OK(open("text", O_WRONLY | O_CREAT, 0700));
    write(fd, "no program at all", 17);
    close(fd);
    CHECK(execl("./text", "x", NULL) == -1 && errno == ENOEXEC);
    chmod("text", 0600);
    CHECK(execl("./text", "x", NULL) == -1 && errno == EACCES);
    printf("%d\n", getpid());
}
