// Memory of other processes is not written behind the recorder's back.
// refused: process_vm_writev
#include "corpus.h"
#include <sys/uio.h>

int main(void)
{
    long from = 5, into = 0;
    struct iovec local = {&from, sizeof from}, remote = {&into, sizeof into};
    long done = process_vm_writev(getpid(), &local, 1, &remote, 1, 0);
    printf("%ld %ld\n", done, into);
}
