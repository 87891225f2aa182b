// IPv6 over the loopback, where there is any.
#include "corpus.h"
#include <netinet/in.h>

int main(void)
{
    struct sockaddr_in6 address = {.sin6_family = AF_INET6, .sin6_addr = IN6ADDR_LOOPBACK_INIT};
    socklen_t length = sizeof address;
    int in = socket(AF_INET6, SOCK_DGRAM, 0);
    printf("%d\n", in);
    if (in < 0 || bind(in, (void *)&address, sizeof address) < 0)
        return 0;
    OK(getsockname(in, (void *)&address, &length));
    CHECK(sendto(in, "six", 3, 0, (void *)&address, length) == 3);
    char text[8];
    CHECK(recv(in, text, 8, 0) == 3);
    printf("port %d\n", ntohs(address.sin6_port));
}
