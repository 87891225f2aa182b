// vmsplice is refused: pages would stay shared with the pipe.
// refused: vmsplice
#include "corpus.h"
#include <sys/uio.h>

int main(void)
{
    int ends[2];
    struct iovec from = {"text", 4};
    OK(pipe(ends));
    long done = vmsplice(ends[1], &from, 1, 0);
    printf("%ld %d\n", done, done < 0 ? errno : 0);
}
