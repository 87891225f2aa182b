// UDP over the loopback, with recvmmsg and sendmmsg.
#include "corpus.h"
#include <netinet/in.h>

int main(void)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t length = sizeof address;
    int in = OK(socket(AF_INET, SOCK_DGRAM, 0)), out = OK(socket(AF_INET, SOCK_DGRAM, 0));
    OK(bind(in, (void *)&address, sizeof address));
    OK(getsockname(in, (void *)&address, &length));
    OK(connect(out, (void *)&address, sizeof address));
    char texts[4][32];
    struct iovec vectors[4];
    struct mmsghdr messages[4] = {};
    for (int i = 0; i < 4; i++) {
        vectors[i] = (struct iovec){texts[i], sprintf(texts[i], "message %d of %d", i, getpid())};
        messages[i].msg_hdr.msg_iov = &vectors[i];
        messages[i].msg_hdr.msg_iovlen = 1;
    }
    CHECK(sendmmsg(out, messages, 4, 0) == 4);
    struct sockaddr_in from[4];
    memset(texts, 0, sizeof texts);
    for (int i = 0; i < 4; i++) {
        vectors[i].iov_len = 31;
        messages[i].msg_hdr.msg_name = &from[i];
        messages[i].msg_hdr.msg_namelen = sizeof from[i];
    }
    struct timespec timeout = {1, 0};
    CHECK(recvmmsg(in, messages, 4, MSG_WAITFORONE, &timeout) == 4);
    for (int i = 0; i < 4; i++)
        printf("%s (%u) from port %d\n", texts[i], messages[i].msg_len, ntohs(from[i].sin_port));
    printf("%ld.%09ld left\n", timeout.tv_sec, timeout.tv_nsec);
}
