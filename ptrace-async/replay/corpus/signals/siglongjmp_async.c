// A handler leaves by siglongjmp out of a call that waits.
#include "corpus.h"
#include <setjmp.h>

static sigjmp_buf back;

static void leave(int signal)
{
    siglongjmp(back, signal);
}

int main(void)
{
    handle(SIGALRM, leave, 0);
    volatile int rounds = 0;
    while (rounds < 4) {
        if (sigsetjmp(back, 1) == 0) {
            ualarm(5000, 0);
            for (;;)
                pause();
        }
        printf("round %d at %ld\n", rounds, now());
        rounds++;
    }
}
