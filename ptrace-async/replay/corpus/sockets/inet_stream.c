// TCP over the loopback.
#include "corpus.h"
#include <netinet/in.h>
#include <netinet/tcp.h>

int main(void)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)}, peer;
    socklen_t length = sizeof address;
    int listener = OK(socket(AF_INET, SOCK_STREAM, 0)), one = 1;
    OK(setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one));
    OK(bind(listener, (void *)&address, sizeof address));
    OK(listen(listener, 5));
    OK(getsockname(listener, (void *)&address, &length));
    pid_t child = fork();
    if (!child) {
        char block[5000];
        int fd = OK(socket(AF_INET, SOCK_STREAM, 0));
        OK(connect(fd, (void *)&address, sizeof address));
        OK(setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one));
        for (int i = 0; i < 20; i++) {
            memset(block, i + getpid(), sizeof block);
            CHECK(write(fd, block, sizeof block) == sizeof block);
        }
        shutdown(fd, SHUT_WR);
        CHECK(read(fd, block, sizeof block) == 4);
        _exit(0);
    }
    length = sizeof peer;
    int fd = OK(accept(listener, (void *)&peer, &length));
    printf("port %d, peer %d\n", ntohs(address.sin_port), ntohs(peer.sin_port));
    char block[7000];
    long all = 0, got;
    while ((got = recv(fd, block, sizeof block, 0)) > 0) {
        all += got;
        printf("%ld ", got);
    }
    printf("\n%ld\n", all);
    CHECK(all == 100000 && write(fd, "done", 4) == 4);
    struct tcp_info info;
    length = sizeof info;
    OK(getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &length));
    printf("rtt %u\n", info.tcpi_rtt);
    reap(child);
}
