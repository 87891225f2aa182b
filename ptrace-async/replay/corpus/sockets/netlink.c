// A netlink socket lists the network interfaces.
#include "corpus.h"
#include <linux/netlink.h>
#include <linux/rtnetlink.h>

int main(void)
{
    struct {
        struct nlmsghdr header;
        struct rtgenmsg body;
    } request = {{sizeof request, RTM_GETLINK, NLM_F_REQUEST | NLM_F_DUMP, 1, 0}, {AF_UNSPEC}};
    static char answer[1 << 15];
    int fd = socket(AF_NETLINK, SOCK_RAW, NETLINK_ROUTE);
    printf("%d\n", fd);
    if (fd < 0)
        return 0;
    CHECK(send(fd, &request, sizeof request, 0) == sizeof request);
    long got = OK(recv(fd, answer, sizeof answer, 0));
    unsigned sum = 0;
    for (long i = 0; i < got; i++)
        sum = sum * 31 + answer[i];
    printf("%ld bytes, %u\n", got, sum);
}
