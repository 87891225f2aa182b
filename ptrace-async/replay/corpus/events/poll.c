// poll over several pipes that children write.
#include "corpus.h"

int main(void)
{
    struct pollfd fds[4];
    for (int i = 0; i < 4; i++) {
        int ends[2];
        OK(pipe(ends));
        if (!fork()) {
            pause_ms(getpid() * 3 % 7);
            write(ends[1], &i, 1);
            _exit(0);
        }
        close(ends[1]);
        fds[i] = (struct pollfd){ends[0], POLLIN};
    }
    int open = 4;
    while (open) {
        int ready = OK(poll(fds, 4, 1000));
        printf("%d ready:", ready);
        for (int i = 0; i < 4; i++)
            if (fds[i].revents) {
                char byte;
                printf(" %d (%x)", i, fds[i].revents);
                if (read(fds[i].fd, &byte, 1) == 0) {
                    fds[i].fd = -1;
                    open--;
                }
            }
        putchar('\n');
    }
    while (wait(NULL) > 0)
        ;
}
