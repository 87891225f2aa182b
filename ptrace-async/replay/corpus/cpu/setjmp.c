// setjmp and longjmp across frames.
#include "corpus.h"
#include <setjmp.h>

static jmp_buf back;

static void down(int depth)
{
    if (!depth)
        longjmp(back, getpid());
    down(depth - 1);
}

int main(void)
{
    volatile int rounds = 0;
    int value = setjmp(back);
    if (rounds++ < 10)
        down(rounds * 10);
    printf("%d\n", value);
    CHECK(value == getpid());
}
