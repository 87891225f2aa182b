// Extended attributes, where the file system has them.
#include "corpus.h"
#include <sys/xattr.h>

int main(void)
{
    char value[64] = {}, names[256] = {};
    int fd = OK(open("file", O_RDWR | O_CREAT, 0600));
    int done = setxattr("file", "user.corpus", "value", 5, 0);
    printf("%d %d\n", done, done ? errno : 0);
    CHECK(getxattr("file", "user.other", value, sizeof value) == -1);
    if (done)
        return 0;
    CHECK(fgetxattr(fd, "user.corpus", value, sizeof value) == 5);
    printf("%ld %s %s\n", (long)listxattr("file", names, sizeof names), names, value);
    CHECK(getxattr("file", "user.corpus", NULL, 0) == 5);
    OK(removexattr("file", "user.corpus"));
}
