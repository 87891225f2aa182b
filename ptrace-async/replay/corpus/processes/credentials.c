// Ids, groups and capabilities.
#include "corpus.h"
#include <linux/capability.h>

int main(void)
{
    uid_t r, e, s;
    gid_t groups[128];
    OK(getresuid(&r, &e, &s));
    int count = OK(getgroups(128, groups));
    printf("%d %d %d, %d %d, %d groups\n", r, e, s, getgid(), getegid(), count);
    for (int i = 0; i < count; i++)
        printf("%d ", groups[i]);
    struct __user_cap_header_struct header = {_LINUX_CAPABILITY_VERSION_3, 0};
    struct __user_cap_data_struct data[2];
    OK(syscall(SYS_capget, &header, data));
    printf("%x %x\n", data[0].effective, data[1].effective);
    OK(setresuid(-1, r, -1));
}
