// Each call that writes to a file, while it is mapped privately.
#include "corpus.h"
#include <linux/fs.h>
#include <sys/ioctl.h>
#include <sys/sendfile.h>
#include <sys/uio.h>

static volatile unsigned char *file;

static void show(const char *how, long offset)
{
    printf("%s:", how);
    for (int i = 0; i < 8; i++)
        printf(" %02x", file[offset + i]);
    printf("\n");
}

static int made_at(const char *name, long size)
{
    int fd = OK(open(name, O_RDWR | O_CREAT | O_TRUNC, 0600));
    for (long i = 0; i < size / 8; i++) {
        long time = now();
        CHECK(write(fd, &time, 8) == 8);
    }
    return fd;
}

int main(void)
{
    const long page = 4096;
    int fd = made_at("file", 16 * page), other = made_at("other", 16 * page);
    file = OK(mmap(NULL, 32 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE, fd, 0));
    file[15 * page] = 'm';
    show("mapped", 0);
    long time = now();
    struct iovec pieces[2] = {{&time, 4}, {(char *)&time + 4, 4}};
#define SAME(offset) CHECK(memcmp((char *)file + (offset), &time, 8) == 0)
    lseek(fd, page, SEEK_SET);
    CHECK(write(fd, &time, 8) == 8);
    SAME(page);
    CHECK(writev(fd, pieces, 2) == 8);
    SAME(page + 8);
    time = now();
    CHECK(pwrite(fd, &time, 8, 2 * page - 4) == 8);
    SAME(2 * page - 4);
    CHECK(pwritev(fd, pieces, 2, 3 * page) == 8);
    SAME(3 * page);
    CHECK(pwritev2(fd, pieces, 2, 4 * page, 0) == 8);
    SAME(4 * page);
    CHECK(lseek(fd, 5 * page, SEEK_SET) == 5 * page && pwritev2(fd, pieces, 2, -1, 0) == 8);
    SAME(5 * page);
    show("written", 2 * page - 4);
    // To the end, whatever the offset.
    int end = OK(open("file", O_WRONLY | O_APPEND));
    CHECK(write(end, &time, 8) == 8);
    SAME(16 * page);
    time = now();
    CHECK(pwrite(end, &time, 8, 0) == 8);
    SAME(16 * page + 8);
    CHECK(pwritev2(fd, pieces, 2, 0, RWF_APPEND) == 8);
    SAME(16 * page + 16);
    show("appended", 16 * page);
    // What the program has written itself stays.
    CHECK(pwrite(fd, &time, 8, 15 * page) == 8);
    CHECK(file[15 * page] == 'm');
    // From another file, and from a pipe.
    off_t from = 0, to = 6 * page;
    CHECK(copy_file_range(other, &from, fd, &to, 8, 0) == 8);
    show("copied", 6 * page);
    CHECK(pread(other, &time, 8, 0) == 8);
    SAME(6 * page);
    lseek(other, 8, SEEK_SET);
    lseek(fd, 7 * page, SEEK_SET);
    CHECK(copy_file_range(other, NULL, fd, NULL, 16, 0) == 16);
    CHECK(pread(other, &time, 8, 8) == 8);
    SAME(7 * page);
    from = 24;
    CHECK(sendfile(fd, other, &from, 8) == 8);
    CHECK(pread(other, &time, 8, 24) == 8);
    SAME(7 * page + 16);
    show("sent", 7 * page + 16);
    // Holes, and what comes of growing.
    OK(fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 8 * page, 2 * page));
    CHECK(file[8 * page] == 0 && file[10 * page - 1] == 0);
    OK(fallocate(fd, 0, 0, 20 * page));
    CHECK(file[20 * page - 1] == 0);
    // Nothing goes where that is refused, nor what the program has written itself.
    CHECK(fallocate(fd, FALLOC_FL_COLLAPSE_RANGE, 11 * page + 1, page) == -1);
    CHECK(file[15 * page] == 'm');
    show("not moved", 15 * page);
    // Of what is behind, all is somewhere else.
    time = *(long *)(file + 12 * page);
    if (!fallocate(fd, FALLOC_FL_COLLAPSE_RANGE, 11 * page, page))
        SAME(11 * page);
    show("moved", 11 * page);
    // Blocks of another file, where the file system can.
    if (!ioctl(fd, FICLONE, other)) {
        CHECK(pread(other, &time, 8, 0) == 8);
        SAME(0);
    }
    struct file_clone_range range = {other, 2 * page, page, 0};
    if (!ioctl(fd, FICLONERANGE, &range)) {
        CHECK(pread(other, &time, 8, 2 * page) == 8);
        SAME(0);
    }
    show("cloned", 0);
}
