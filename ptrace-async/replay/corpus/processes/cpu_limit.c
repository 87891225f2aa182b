// RLIMIT_FSIZE: SIGXFSZ ends who writes too much.
// status: signal 25
#include "corpus.h"

int main(void)
{
    struct rlimit limit = {4096, 4096};
    int fd = OK(open("file", O_RDWR | O_CREAT, 0600));
    OK(setrlimit(RLIMIT_FSIZE, &limit));
    char page[4096] = {};
    write(fd, page, 4096);
    write(fd, page, 4096);
}
