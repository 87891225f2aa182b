// Datagrams between named sockets, with the senders' names.
#include "corpus.h"

int main(void)
{
    struct sockaddr_un one = {.sun_family = AF_UNIX, .sun_path = "one"},
                       two = {.sun_family = AF_UNIX, .sun_path = "two"}, from;
    int a = OK(socket(AF_UNIX, SOCK_DGRAM, 0)), b = OK(socket(AF_UNIX, SOCK_DGRAM, 0));
    socklen_t length = sizeof from;
    char text[64] = {};
    OK(bind(a, (void *)&one, sizeof one));
    OK(bind(b, (void *)&two, sizeof two));
    int sent = sprintf(text, "datagram of %d", getpid());
    CHECK(sendto(a, text, sent, 0, (void *)&two, sizeof two) == sent);
    memset(text, 0, sizeof text);
    CHECK(recvfrom(b, text, 5, MSG_TRUNC, (void *)&from, &length) == sent);
    printf("%s from %s\n", text, from.sun_path);
    CHECK(recv(b, text, 5, MSG_DONTWAIT) == -1 && errno == EAGAIN);
}
