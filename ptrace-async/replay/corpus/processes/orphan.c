// An orphan goes on after its parent, and tells its new parent.
#include "corpus.h"
#include <sys/prctl.h>

int main(void)
{
    int ends[2];
    char text[64] = {};
    OK(pipe(ends));
    OK(prctl(PR_SET_CHILD_SUBREAPER, 1));
    pid_t child = fork();
    if (!child) {
        // Who asks for its parent may already be an orphan.
        pid_t parent = getpid();
        if (!fork()) {
            while (getppid() == parent)
                pause_ms(1);
            dprintf(ends[1], "orphan %d of %d", getpid(), getppid());
            _exit(8);
        }
        pause_ms(3);
        _exit(0);
    }
    reap(child);
    CHECK(read(ends[0], text, sizeof text - 1) > 0);
    puts(text);
    int status;
    CHECK(wait(&status) > 0 && WEXITSTATUS(status) == 8);
}
