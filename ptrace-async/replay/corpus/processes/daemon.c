// A daemon outlives the first process, and prints after it.
#include "corpus.h"

int main(void)
{
    if (fork())
        _exit(0);
    setsid();
    if (fork())
        _exit(0);
    pause_ms(20);
    printf("daemon %d in session %d\n", getpid(), getsid(0));
    fflush(stdout);
}
