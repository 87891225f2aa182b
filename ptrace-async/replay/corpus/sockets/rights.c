// SCM_RIGHTS and SCM_CREDENTIALS: descriptors and identities in messages.
#include "corpus.h"

int main(void)
{
    int ends[2], one = 1;
    OK(socketpair(AF_UNIX, SOCK_STREAM, 0, ends));
    OK(setsockopt(ends[1], SOL_SOCKET, SO_PASSCRED, &one, sizeof one));
    pid_t child = fork();
    if (!child) {
        int pipe_ends[2];
        char room[CMSG_SPACE(2 * sizeof(int))] = {}, byte = 'x';
        OK(pipe(pipe_ends));
        struct iovec from = {&byte, 1};
        struct msghdr message = {.msg_iov = &from, .msg_iovlen = 1, .msg_control = room,
                                 .msg_controllen = sizeof room};
        struct cmsghdr *header = CMSG_FIRSTHDR(&message);
        header->cmsg_level = SOL_SOCKET;
        header->cmsg_type = SCM_RIGHTS;
        header->cmsg_len = CMSG_LEN(2 * sizeof(int));
        memcpy(CMSG_DATA(header), pipe_ends, sizeof pipe_ends);
        CHECK(sendmsg(ends[0], &message, 0) == 1);
        dprintf(pipe_ends[1], "by a pipe of %d", getpid());
        _exit(0);
    }
    char room[256], byte, text[64] = {};
    struct iovec into = {&byte, 1};
    struct msghdr message = {.msg_iov = &into, .msg_iovlen = 1, .msg_control = room,
                             .msg_controllen = sizeof room};
    CHECK(recvmsg(ends[1], &message, MSG_CMSG_CLOEXEC) == 1);
    int fd = -1;
    for (struct cmsghdr *header = CMSG_FIRSTHDR(&message); header; header = CMSG_NXTHDR(&message, header)) {
        printf("type %d\n", header->cmsg_type);
        if (header->cmsg_type == SCM_RIGHTS)
            memcpy(&fd, CMSG_DATA(header), sizeof fd);
    }
    CHECK(fd >= 0 && read(fd, text, sizeof text - 1) > 0);
    puts(text);
    reap(child);
}
