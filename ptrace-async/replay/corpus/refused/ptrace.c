// ptrace is refused: a program that is recorded traces nobody.
// refused: ptrace
#include "corpus.h"
#include <sys/ptrace.h>

int main(void)
{
    pid_t child = fork();
    if (!child) {
        long done = ptrace(PTRACE_TRACEME, 0, NULL, NULL);
        printf("%ld %d\n", done, done ? errno : 0);
        exit(0);
    }
    reap(child);
}
