// A child is told of its parent's end by a signal.
#include "corpus.h"
#include <sys/prctl.h>

static volatile int told;

static void note(int signal)
{
    told = 1;
}

int main(void)
{
    int ends[2];
    char text[64] = {};
    OK(pipe(ends));
    pid_t child = fork();
    if (!child) {
        if (!fork()) {
            handle(SIGUSR1, note, 0);
            prctl(PR_SET_PDEATHSIG, SIGUSR1);
            write(ends[1], "r", 1);
            while (!told)
                pause_ms(1);
            dprintf(ends[1], "told at %ld", now());
            _exit(0);
        }
        char byte;
        read(ends[0], &byte, 1);
        _exit(0);
    }
    reap(child);
    CHECK(read(ends[0], text, sizeof text - 1) > 0);
    puts(text);
}
