// fallocate, holes, SEEK_DATA and SEEK_HOLE, truncate, fadvise, sync.
#include "corpus.h"

int main(void)
{
    struct stat stat_;
    int fd = OK(open("file", O_RDWR | O_CREAT, 0600));
    int done = fallocate(fd, 0, 0, 1 << 16);
    printf("%d\n", done);
    OK(ftruncate(fd, 1 << 18));
    CHECK(pwrite(fd, "x", 1, 1 << 17) == 1);
    done = fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 4096, 8192);
    printf("%d, data at %ld, hole at %ld\n", done, (long)lseek(fd, 5000, SEEK_DATA),
           (long)lseek(fd, 1 << 17, SEEK_HOLE));
    OK(truncate("file", 10));
    OK(fstat(fd, &stat_));
    CHECK(stat_.st_size == 10);
    CHECK(posix_fadvise(fd, 0, 0, POSIX_FADV_RANDOM) == 0);
    OK(fsync(fd));
    OK(fdatasync(fd));
    sync();
    OK(sync_file_range(fd, 0, 10, SYNC_FILE_RANGE_WRITE));
    readahead(fd, 0, 10);
}
