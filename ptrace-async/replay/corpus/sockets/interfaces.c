// ioctls of sockets: names and addresses of interfaces; the list of all is refused.
// refused: ioctl
#include "corpus.h"
#include <net/if.h>
#include <sys/ioctl.h>

int main(void)
{
    struct ifreq requests[16], one = {.ifr_name = "lo"};
    struct ifconf all = {.ifc_len = sizeof requests, .ifc_req = requests};
    int fd = OK(socket(AF_INET, SOCK_DGRAM, 0));
    int done = ioctl(fd, SIOCGIFFLAGS, &one);
    printf("%d %x\n", done, one.ifr_flags);
    done = ioctl(fd, SIOCGIFCONF, &all);
    printf("%d %d\n", done, all.ifc_len);
}
