// SOCK_SEQPACKET keeps the borders of messages.
#include "corpus.h"

int main(void)
{
    int ends[2];
    char text[64];
    OK(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, ends));
    send(ends[0], "one", 3, 0);
    send(ends[0], "other", 5, MSG_EOR);
    CHECK(recv(ends[1], text, 64, MSG_PEEK) == 3);
    CHECK(recv(ends[1], text, 64, 0) == 3);
    struct iovec into = {text, 2};
    struct msghdr message = {.msg_iov = &into, .msg_iovlen = 1};
    CHECK(recvmsg(ends[1], &message, 0) == 2 && message.msg_flags & MSG_TRUNC);
}
