// Children that end in any order, waited for as they come.
#include "corpus.h"

int main(void)
{
    for (int i = 0; i < 8; i++)
        if (!fork()) {
            pause_ms(getpid() * 7 % 10);
            _exit(i);
        }
    for (int i = 0; i < 8; i++) {
        int status;
        pid_t child = wait(&status);
        printf("%d: %d\n", child, WEXITSTATUS(status));
    }
}
