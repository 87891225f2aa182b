// copy_file_range, with offsets that it moves.
#include "corpus.h"

int main(void)
{
    int from = OK(open("from", O_RDWR | O_CREAT, 0600)), to = OK(open("to", O_RDWR | O_CREAT, 0600));
    char text[64] = {};
    int length = sprintf(text, "copied by %d", getpid());
    write(from, text, length);
    loff_t at = 2;
    ssize_t got = copy_file_range(from, &at, to, NULL, 100, 0);
    printf("%ld %ld\n", (long)got, (long)at);
    CHECK(got == length - 2 && at == length);
    memset(text, 0, sizeof text);
    CHECK(pread(to, text, sizeof text, 0) == length - 2);
    puts(text);
}
