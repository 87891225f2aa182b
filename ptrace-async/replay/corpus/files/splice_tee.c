// splice and tee between pipes and files.
#include "corpus.h"
#include <sys/uio.h>

int main(void)
{
    int one[2], two[2], fd = OK(open("file", O_RDWR | O_CREAT, 0600));
    char text[64] = {};
    OK(pipe(one));
    OK(pipe(two));
    int length = sprintf(text, "spliced by %d", getpid());
    CHECK(write(one[1], text, length) == length);
    CHECK(tee(one[0], two[1], 100, 0) == length);
    loff_t at = 3;
    CHECK(splice(one[0], NULL, fd, &at, 100, 0) == length && at == 3 + length);
    char back[64] = {};
    CHECK(read(two[0], back, sizeof back) == length && strcmp(text, back) == 0);
    memset(back, 0, sizeof back);
    CHECK(pread(fd, back, sizeof back, 3) == length);
    puts(back);
}
