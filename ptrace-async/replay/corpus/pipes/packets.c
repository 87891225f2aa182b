// A pipe in packet mode.
#include "corpus.h"

int main(void)
{
    int ends[2];
    char text[64];
    OK(pipe2(ends, O_DIRECT));
    write(ends[1], "one", 3);
    write(ends[1], "other", 5);
    CHECK(read(ends[0], text, sizeof text) == 3);
    CHECK(read(ends[0], text, 2) == 2);
}
