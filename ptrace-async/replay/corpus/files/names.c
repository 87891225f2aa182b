// Links, renames, directories, unlink, in their plain and their at forms.
#include "corpus.h"

int main(void)
{
    char target[64] = {};
    OK(mkdir("a", 0700));
    int dir = OK(open("a", O_RDONLY | O_DIRECTORY));
    close(OK(openat(dir, "one", O_CREAT | O_WRONLY, 0600)));
    OK(linkat(dir, "one", dir, "two", 0));
    OK(symlinkat("one", dir, "three"));
    CHECK(readlinkat(dir, "three", target, sizeof target) == 3);
    OK(renameat(dir, "two", AT_FDCWD, "four"));
    CHECK(renameat2(AT_FDCWD, "four", dir, "one", RENAME_NOREPLACE) == -1 && errno == EEXIST);
    OK(renameat2(AT_FDCWD, "four", dir, "one", RENAME_EXCHANGE));
    OK(unlinkat(dir, "one", 0));
    OK(unlinkat(dir, "three", 0));
    CHECK(rmdir("four") == -1 && errno == ENOTDIR);
    OK(rmdir("a"));
    OK(symlink("/nowhere", "dangling"));
    OK(faccessat(AT_FDCWD, ".", R_OK, 0));
    CHECK(access("dangling", F_OK) == -1);
    OK(mknod("fifo", S_IFIFO | 0600, 0));
    OK(unlink("fifo"));
}
