// A file is truncated in each way while it is mapped privately: pages are gone, also those
// that the program has written itself, and zeros when it grows again.
#include "corpus.h"
#include <setjmp.h>

static sigjmp_buf back;
static volatile char *file;
static int fd;

static void fault(int signal)
{
    siglongjmp(back, 1);
}

// The byte at an offset; -1 behind the end.
static int at(long offset)
{
    volatile int byte = -1;
    if (!sigsetjmp(back, 1))
        byte = (unsigned char)file[offset];
    return byte;
}

static void fill(void)
{
    long text[2048];
    for (int i = 0; i < 2048; i++)
        // No byte is 0 or 'm'.
        text[i] = (now() | 0x0101010101010101) & ~0x2020202020202020;
    CHECK(pwrite(fd, text, sizeof text, 0) == sizeof text);
}

static void show(const char *how)
{
    printf("%s: %d %d %d %d\n", how, at(0), at(5000), at(9000), at(16000));
}

int main(void)
{
    handle(SIGBUS, fault, 0);
    fd = OK(open("file", O_RDWR | O_CREAT, 0600));
    fill();
    file = OK(mmap(NULL, 16384, PROT_READ | PROT_WRITE, MAP_PRIVATE, fd, 0));
    file[9000] = 'm';
    show("mapped");
    CHECK(at(0) > 0 && at(9000) == 'm' && at(16000) > 0);
    OK(ftruncate(fd, 6000));
    show("ftruncate");
    CHECK(at(5000) > 0 && at(6001) == 0 && at(9000) == -1 && at(16000) == -1);
    OK(ftruncate(fd, 16384));
    show("grown");
    CHECK(at(9000) == 0 && at(16000) == 0 && at(5000) > 0);
    fill();
    file[5000] = 'm';
    show("filled");
    CHECK(at(16000) > 0);
    OK(truncate("file", 100));
    show("truncate");
    CHECK(at(0) > 0 && at(100) == 0 && at(5000) == -1);
    fill();
    show("filled");
    CHECK(at(5000) != 'm');
    for (int i = 0; i < 6; i++) {
        int other = -1;
        char name[64];
        sprintf(name, "/proc/self/fd/%d", fd);
        switch (i) {
        case 0: other = open("file", O_WRONLY | O_TRUNC); break;
        case 1: other = creat("./file", 0600); break;
        case 2: other = syscall(SYS_open, name, O_RDWR | O_TRUNC); break;
        case 3: {
            long how[3] = {O_RDWR | O_TRUNC, 0, 0};
            other = syscall(SYS_openat2, AT_FDCWD, "file", how, sizeof how);
            break;
        }
        case 4: {
            char here[4096];
            CHECK(getcwd(here, 4000));
            strcat(here, "/file");
            other = open(here, O_RDWR | O_TRUNC | O_CREAT, 0600);
            break;
        }
        case 5: {
            int directory = OK(open(".", O_RDONLY | O_DIRECTORY));
            OK(symlinkat("file", directory, "link"));
            other = openat(directory, "link", O_RDWR | O_TRUNC);
            OK(unlink("link"));
            OK(close(directory));
        }
        }
        OK(other);
        printf("opened %d\n", i);
        CHECK(at(0) == -1 && at(16000) == -1);
        fill();
        show("filled");
        CHECK(at(0) > 0 && at(16000) > 0);
        OK(close(other));
    }
}
