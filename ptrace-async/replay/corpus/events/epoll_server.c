// A server with epoll, and three clients that come in any order.
#include "corpus.h"
#include <sys/epoll.h>

int main(void)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX, .sun_path = "server"};
    int listener = OK(socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0)), epoll = OK(epoll_create(1));
    struct epoll_event event = {EPOLLIN, {.fd = listener}}, events[4];
    OK(bind(listener, (void *)&address, sizeof address));
    OK(listen(listener, 5));
    OK(epoll_ctl(epoll, EPOLL_CTL_ADD, listener, &event));
    for (int i = 0; i < 3; i++)
        if (!fork()) {
            char text[32];
            int fd = OK(socket(AF_UNIX, SOCK_STREAM, 0));
            OK(connect(fd, (void *)&address, sizeof address));
            for (int j = 0; j < 4; j++) {
                int length = sprintf(text, "%d.%d", i, j);
                write(fd, text, length);
                CHECK(read(fd, text, sizeof text) == length);
            }
            _exit(0);
        }
    int closed = 0;
    while (closed < 3) {
        int ready = OK(epoll_wait(epoll, events, 4, 2000));
        CHECK(ready > 0);
        for (int i = 0; i < ready; i++) {
            int fd = events[i].data.fd;
            char text[32];
            if (fd == listener) {
                event.data.fd = OK(accept(listener, NULL, NULL));
                OK(epoll_ctl(epoll, EPOLL_CTL_ADD, event.data.fd, &event));
                continue;
            }
            long got = OK(read(fd, text, sizeof text));
            if (got == 0) {
                close(fd);
                closed++;
                continue;
            }
            printf("%.*s ", (int)got, text);
            write(fd, text, got);
        }
    }
    putchar('\n');
    while (wait(NULL) > 0)
        ;
}
