// process_vm_readv reads the memory of a child.
#include "corpus.h"
#include <sys/prctl.h>
#include <sys/uio.h>

int main(void)
{
    static long value = 1;
    int ends[2];
    char byte;
    OK(pipe(ends));
    pid_t child = fork();
    if (!child) {
        value = now();
        prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY);
        write(ends[1], "x", 1);
        for (;;)
            pause();
    }
    read(ends[0], &byte, 1);
    long got = 0;
    struct iovec local = {&got, sizeof got}, remote = {&value, sizeof value};
    long done = process_vm_readv(child, &local, 1, &remote, 1, 0);
    printf("%ld %ld\n", done, got);
    CHECK(done == sizeof got && got != 1);
    kill(child, SIGKILL);
    wait(NULL);
}
