// unshare of what an unprivileged program may try.
#include "corpus.h"

int main(void)
{
    pid_t child = fork();
    if (!child) {
        int done = unshare(CLONE_NEWUSER);
        printf("unshare %d %d, uid %d\n", done, done ? errno : 0, getuid());
        unshare(CLONE_FILES | CLONE_FS);
        _exit(0);
    }
    reap(child);
}
