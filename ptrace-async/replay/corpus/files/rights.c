// chmod, chown to oneself, umask, utimensat, access.
#include "corpus.h"

int main(void)
{
    struct stat stat_;
    mode_t old = umask(027);
    int fd = OK(open("file", O_RDWR | O_CREAT, 0777));
    OK(fstat(fd, &stat_));
    CHECK((stat_.st_mode & 0777) == 0750);
    CHECK(umask(old) == 027);
    OK(fchmod(fd, 0600));
    OK(chmod("file", 0640));
    OK(fchmodat(AT_FDCWD, "file", 0644, 0));
    OK(fchown(fd, getuid(), -1));
    struct timespec times[2] = {{1000, 5}, {2000, 7}};
    OK(utimensat(AT_FDCWD, "file", times, 0));
    OK(stat("file", &stat_));
    CHECK(stat_.st_mtim.tv_sec == 2000 && stat_.st_atim.tv_nsec == 5);
    OK(futimens(fd, NULL));
    OK(stat("file", &stat_));
    printf("%ld.%ld\n", stat_.st_mtim.tv_sec, stat_.st_mtim.tv_nsec);
    printf("%d\n", access("/root", R_OK));
}
