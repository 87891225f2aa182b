// socketpair, half-closed connections, MSG_NOSIGNAL.
#include "corpus.h"

int main(void)
{
    int ends[2];
    char text[16];
    OK(socketpair(AF_UNIX, SOCK_STREAM, 0, ends));
    write(ends[0], "last", 4);
    OK(shutdown(ends[0], SHUT_WR));
    CHECK(read(ends[1], text, 16) == 4 && read(ends[1], text, 16) == 0);
    CHECK(send(ends[0], "x", 1, MSG_NOSIGNAL) == -1 && errno == EPIPE);
    CHECK(write(ends[1], "back", 4) == 4 && read(ends[0], text, 16) == 4);
    OK(shutdown(ends[1], SHUT_RDWR));
}
