// The program is killed by its child while it waits.
// status: signal 9
#include "corpus.h"

int main(void)
{
    pid_t parent = getpid();
    if (!fork()) {
        pause_ms(10);
        kill(parent, SIGKILL);
        _exit(0);
    }
    wait(NULL);
    for (;;)
        pause();
}
