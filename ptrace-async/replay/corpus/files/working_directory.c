// chdir, fchdir, getcwd.
#include "corpus.h"

int main(void)
{
    char path[4096];
    puts(getcwd(path, sizeof path));
    int here = OK(open(".", O_RDONLY | O_DIRECTORY));
    OK(mkdir("below", 0700));
    OK(chdir("below"));
    puts(getcwd(path, sizeof path));
    OK(rmdir("../below"));
    CHECK(!getcwd(path, sizeof path) && errno == ENOENT);
    OK(fchdir(here));
    OK(chdir("/"));
    CHECK(syscall(SYS_getcwd, path, 1) == -1 && errno == ERANGE);
}
