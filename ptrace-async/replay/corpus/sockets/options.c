// Socket options of several kinds, and time-outs.
#include "corpus.h"

int main(void)
{
    int ends[2], value;
    socklen_t length = sizeof value;
    struct timeval timeout = {0, 5000};
    char byte;
    OK(socketpair(AF_UNIX, SOCK_STREAM, 0, ends));
    OK(getsockopt(ends[0], SOL_SOCKET, SO_SNDBUF, &value, &length));
    printf("buffer %d\n", value);
    OK(getsockopt(ends[0], SOL_SOCKET, SO_TYPE, &value, &length));
    CHECK(value == SOCK_STREAM);
    OK(setsockopt(ends[0], SOL_SOCKET, SO_RCVTIMEO, &timeout, sizeof timeout));
    CHECK(recv(ends[0], &byte, 1, 0) == -1 && errno == EAGAIN);
    struct linger linger = {1, 5};
    OK(setsockopt(ends[0], SOL_SOCKET, SO_LINGER, &linger, sizeof linger));
    length = 1;
    getsockopt(ends[0], SOL_SOCKET, SO_ERROR, &value, &length);
    CHECK(length <= 1);
}
