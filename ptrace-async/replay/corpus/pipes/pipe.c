// A pipe between a parent and its child; both wait for each other.
#include "corpus.h"

int main(void)
{
    int there[2], back[2];
    OK(pipe(there));
    OK(pipe2(back, O_CLOEXEC));
    pid_t child = fork();
    if (!child) {
        long value;
        close(there[1]);
        while (read(there[0], &value, sizeof value) == sizeof value) {
            value += getpid();
            write(back[1], &value, sizeof value);
        }
        _exit(0);
    }
    close(there[0]);
    for (long i = 0; i < 20; i++) {
        long value = now(), answer;
        write(there[1], &value, sizeof value);
        CHECK(read(back[0], &answer, sizeof answer) == sizeof answer);
        CHECK(answer == value + child);
        printf("%ld\n", answer);
    }
    close(there[1]);
    reap(child);
}
