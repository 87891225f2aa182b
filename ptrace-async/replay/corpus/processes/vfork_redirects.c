// A child of vfork redirects its own output, and its parent's is what it was.
#include "corpus.h"

int main(void)
{
    // Often enough for the recorder to let such writes pass.
    int null = open("/dev/null", O_WRONLY);
    CHECK(null >= 0);
    for (int i = 0; i < 20; i++)
        CHECK(write(null, "x", 1) == 1);
    pid_t child = vfork();
    CHECK(child >= 0);
    if (child == 0) {
        dup2(null, 1);
        _exit(0);
    }
    CHECK(waitpid(child, NULL, 0) == child);
    for (int i = 0; i < 20; i++) {
        char text[] = "a line\n";
        text[0] = (char) ('a' + i);
        CHECK(write(1, text, 7) == 7);
    }
    return 0;
}
