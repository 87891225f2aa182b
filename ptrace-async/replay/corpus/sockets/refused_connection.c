// Connections that fail, at once and later.
#include "corpus.h"
#include <netinet/in.h>

int main(void)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t length = sizeof address;
    int fd = OK(socket(AF_INET, SOCK_STREAM, 0)), other = OK(socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0));
    OK(bind(fd, (void *)&address, sizeof address));
    OK(getsockname(fd, (void *)&address, &length));
    CHECK(connect(other, (void *)&address, sizeof address) == -1);
    printf("%d\n", errno);
    struct pollfd poll_fd = {other, POLLOUT};
    CHECK(poll(&poll_fd, 1, 1000) == 1);
    int error;
    length = sizeof error;
    OK(getsockopt(other, SOL_SOCKET, SO_ERROR, &error, &length));
    printf("%x %d\n", poll_fd.revents, error);
}
