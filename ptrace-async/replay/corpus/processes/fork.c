// fork: both go on, with their own memory.
#include "corpus.h"

int main(void)
{
    int value = 1;
    pid_t child = fork();
    if (!child) {
        value = 2;
        printf("child %d of %d: %d\n", getpid(), getppid(), value);
        exit(3);
    }
    CHECK(reap(child) == 3 && value == 1);
    printf("parent of %d\n", child);
}
