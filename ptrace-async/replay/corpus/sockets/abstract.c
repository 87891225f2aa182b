// An abstract address, and one that the kernel chooses.
#include "corpus.h"

int main(void)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    socklen_t length = sizeof address;
    int fd = OK(socket(AF_UNIX, SOCK_DGRAM, 0));
    OK(bind(fd, (void *)&address, sizeof(sa_family_t)));
    OK(getsockname(fd, (void *)&address, &length));
    printf("%u: @%.5s\n", length, address.sun_path + 1);
    struct sockaddr_un own = {.sun_family = AF_UNIX};
    int named = OK(socket(AF_UNIX, SOCK_STREAM, 0));
    sprintf(own.sun_path + 1, "corpus-%d", getpid());
    OK(bind(named, (void *)&own, sizeof own));
    OK(listen(named, 1));
}
