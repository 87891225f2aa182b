// abort ends the program although a handler returns.
// status: signal 6
#include "corpus.h"

static void note(int signal)
{
    write(1, "handler\n", 8);
}

int main(void)
{
    handle(SIGABRT, note, 0);
    abort();
}
