// Descriptors that become the program's output, and cease to be it, after many writes.
#include "corpus.h"

static void say(int fd, char what)
{
    char text[] = "- a line\n";
    text[0] = what;
    for (int i = 0; i < 12; i++)
        CHECK(write(fd, text, 9) == 9);
}

int main(void)
{
    int other = open("other", O_RDWR | O_CREAT | O_TRUNC, 0600);
    CHECK(other >= 0);
    say(other, 'a');
    // The same number is the output now.
    CHECK(dup2(1, other) == other);
    say(other, 'b');
    close(other);
    CHECK(open("other", O_RDWR) == other);
    say(other, 'c');
    close(other);
    CHECK(fcntl(1, F_DUPFD, other) == other);
    say(other, 'e');
    close(other);
    CHECK(open("new", O_RDWR | O_CREAT | O_EXCL, 0600) == other);
    say(other, 'f');
    unlink("new");
    unlink("other");
    say(1, 'g');
    return 0;
}
