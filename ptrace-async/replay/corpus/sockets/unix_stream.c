// A stream socket with a name: listen, accept, connect.
#include "corpus.h"

int main(void)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX, .sun_path = "socket"};
    int listener = OK(socket(AF_UNIX, SOCK_STREAM, 0));
    OK(bind(listener, (void *)&address, sizeof address));
    OK(listen(listener, 5));
    for (int i = 0; i < 3; i++)
        if (!fork()) {
            char text[64] = {};
            int fd = OK(socket(AF_UNIX, SOCK_STREAM, 0));
            OK(connect(fd, (void *)&address, sizeof address));
            dprintf(fd, "hello from %d", getpid());
            CHECK(read(fd, text, sizeof text) > 0 && strcmp(text, "answer") == 0);
            _exit(0);
        }
    for (int i = 0; i < 3; i++) {
        char text[64] = {};
        struct sockaddr_un peer;
        socklen_t length = sizeof peer;
        int fd = OK(accept4(listener, (void *)&peer, &length, SOCK_CLOEXEC));
        struct ucred who;
        socklen_t who_length = sizeof who;
        CHECK(read(fd, text, sizeof text - 1) > 0);
        OK(getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &who, &who_length));
        printf("%s, %d, %u\n", text, who.pid, length);
        write(fd, "answer", 6);
        close(fd);
    }
    while (wait(NULL) > 0)
        ;
}
