// openat2 with a resolution that stays below a directory.
#include "corpus.h"
#include <linux/openat2.h>

int main(void)
{
    struct open_how how = {.flags = O_RDONLY, .resolve = RESOLVE_BENEATH};
    close(OK(open("file", O_RDWR | O_CREAT, 0600)));
    int dir = OK(open(".", O_RDONLY | O_DIRECTORY));
    OK(syscall(SYS_openat2, dir, "file", &how, sizeof how));
    CHECK(syscall(SYS_openat2, dir, "/etc/passwd", &how, sizeof how) == -1 && errno == EXDEV);
}
