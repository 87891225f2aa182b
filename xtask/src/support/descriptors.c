// Makes the calls on descriptors that its arguments name, one after another, and prints how each
// ended: `open 5 work/a rdwr,append,creat`, then `read 5 20`. Descriptors have the numbers that the
// arguments give them. A call whose name follows a `-` is made silently.
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#define MOST (1 << 20)

static const struct {
    const char *name;
    int flag;
} FLAGS[] = {
    {"rdonly", O_RDONLY},       {"wronly", O_WRONLY},     {"rdwr", O_RDWR},
    {"append", O_APPEND},       {"creat", O_CREAT},       {"trunc", O_TRUNC},
    {"excl", O_EXCL},           {"direct", O_DIRECT},     {"directory", O_DIRECTORY},
    {"nofollow", O_NOFOLLOW},   {"noatime", O_NOATIME},   {"path", O_PATH},
    {"tmpfile", O_TMPFILE},     {"sync", O_SYNC},
};

// O_DIRECT needs an aligned buffer.
static char buffer[MOST] __attribute__((aligned(4096)));

static int flags_of(char *names) {
    // A named pipe would block.
    int flags = O_NONBLOCK;
    for (char *name; (name = strsep(&names, ",")) != NULL;) {
        size_t index = 0, count = sizeof FLAGS / sizeof *FLAGS;
        while (index < count && strcmp(FLAGS[index].name, name)) index++;
        if (index == count) exit(9);
        flags |= FLAGS[index].flag;
    }
    return flags & O_PATH ? flags & ~O_NONBLOCK : flags;
}

// Gives a new descriptor this number.
static long numbered(int opened, int number) {
    if (opened < 0 || opened == number) return opened;
    long result = dup2(opened, number);
    close(opened);
    return result;
}

// Copies through a pipe.
static long splice_through(int in, int out, size_t length) {
    int ends[2];
    if (pipe(ends)) return -1;
    long result = splice(in, NULL, ends[1], NULL, length, 0);
    if (result > 0) result = splice(ends[0], NULL, out, NULL, result, 0);
    int error = errno;
    close(ends[0]);
    close(ends[1]);
    errno = error;
    return result;
}

static void limit(long bytes) {
    struct rlimit size = {bytes, bytes};
    signal(SIGXFSZ, SIG_IGN);
    setrlimit(RLIMIT_FSIZE, &size);
}

int main(int count, char **arguments) {
    for (int at = 1; at < count; at++) {
        char *rest = strdup(arguments[at]), *word[6] = {"", "", "", "", "", ""};
        long number[6] = {0};
        for (int part = 0; part < 6 && rest != NULL; part++) {
            word[part] = strsep(&rest, " ");
            number[part] = strtol(word[part], NULL, 0);
        }
        int is_silent = word[0][0] == '-';
        const char *call = word[0] + is_silent;
        int fd = (int)number[1], other = (int)number[2];
        size_t size = (size_t)number[2] < MOST ? (size_t)number[2] : MOST;
        struct iovec halves[2] = {{buffer, size / 2}, {buffer, size - size / 2}};
        struct stat found;
        long result = -1;
        errno = 0;
#define IS(name) (strcmp(call, name) == 0)
        if (!IS("read") && !IS("pread")) memset(buffer, 'x', size);
        if (IS("open")) result = numbered(open(word[2], flags_of(word[3]), 0666), fd);
        else if (IS("openat")) result = numbered(openat(other, word[3], flags_of(word[4]), 0666), fd);
        else if (IS("close")) result = close(fd);
        else if (IS("read")) result = read(fd, buffer, size);
        else if (IS("pread")) result = pread(fd, buffer, size, number[3]);
        else if (IS("write")) result = write(fd, word[2], strlen(word[2]));
        else if (IS("fill")) result = write(fd, buffer, size);
        else if (IS("writev")) result = writev(fd, halves, 2);
        else if (IS("pwrite")) result = pwrite(fd, buffer, size, number[3]);
        else if (IS("pwritev")) result = pwritev(fd, halves, 2, number[3]);
        else if (IS("seek")) result = lseek(fd, number[2], (int)number[3]);
        else if (IS("size")) result = fstat(fd, &found) ? -1 : found.st_size;
        else if (IS("mode")) result = fstat(fd, &found) ? -1 : (long)found.st_mode;
        else if (IS("truncate")) result = ftruncate(fd, number[2]);
        else if (IS("allocate")) result = fallocate(fd, other, number[3], number[4]);
        else if (IS("sendfile")) result = sendfile(other, fd, NULL, number[3]);
        else if (IS("copy-range")) result = copy_file_range(fd, NULL, other, NULL, number[3], 0);
        else if (IS("splice-through")) result = splice_through(fd, other, number[3]);
        else if (IS("splice")) result = splice(fd, NULL, other, NULL, number[3], 0);
        else if (IS("chdir")) result = chdir(word[1]);
        else if (IS("fchdir")) result = fchdir(fd);
        else if (IS("stat")) result = stat(word[1], &found) ? -1 : found.st_size;
        else if (IS("limit")) limit(number[1]), result = 0;
        else return 9;
        if (is_silent) continue;
        printf("%s: %s", call, result < 0 ? strerror(errno) : "ok");
        // The size of a directory is a matter of its file system.
        int is_directory = (IS("size") || IS("stat")) && result >= 0 && S_ISDIR(found.st_mode);
        if (result >= 0 && !is_directory && !IS("open") && !IS("openat")) printf(" %ld", result);
        if (result > 0 && (IS("read") || IS("pread"))) {
            putchar(' ');
            fwrite(buffer, 1, result < 60 ? result : 60, stdout);
        }
        if (is_directory) printf(" directory");
        putchar('\n');
    }
    return 0;
}
