// stat in all its forms, and statx.
#include "corpus.h"

int main(void)
{
    struct stat stat_;
    struct statx statx_;
    int fd = OK(open("file", O_RDWR | O_CREAT, 0640));
    write(fd, "12345", 5);
    OK(stat("file", &stat_));
    OK(fstat(fd, &stat_));
    OK(lstat("file", &stat_));
    OK(fstatat(AT_FDCWD, "file", &stat_, 0));
    printf("inode %ld, %ld.%ld\n", (long)stat_.st_ino, stat_.st_mtim.tv_sec, stat_.st_mtim.tv_nsec);
    OK(statx(AT_FDCWD, "file", 0, STATX_ALL, &statx_));
    CHECK(statx_.stx_size == 5);
    printf("born %lld.%u\n", (long long)statx_.stx_btime.tv_sec, statx_.stx_btime.tv_nsec);
    CHECK(stat("nothing", &stat_) == -1 && errno == ENOENT);
    OK(syscall(SYS_stat, "file", &stat_));
    OK(syscall(SYS_lstat, "file", &stat_));
}
