// vfork and exec, several times.
#include "corpus.h"

int main(void)
{
    for (int i = 0; i < 5; i++) {
        pid_t child = vfork();
        if (!child) {
            execl("/bin/sh", "sh", "-c", "echo $$; exit 6", NULL);
            _exit(1);
        }
        CHECK(reap(child) == 6);
    }
}
