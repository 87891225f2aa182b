// SIGCHLD tells the ends of children, and how they ended.
#include "corpus.h"

static volatile int ended;

static void note(int signal, siginfo_t *info, void *context)
{
    int status;
    pid_t child;
    while ((child = waitpid(-1, &status, WNOHANG)) > 0) {
        printf("%d ended: %d\n", child, status);
        ended++;
    }
}

int main(void)
{
    handle_info(SIGCHLD, note, SA_RESTART | SA_NOCLDSTOP);
    for (int i = 0; i < 5; i++)
        if (!fork()) {
            pause_ms(3 * i);
            _exit(i);
        }
    while (ended < 5)
        pause_ms(5);
}
