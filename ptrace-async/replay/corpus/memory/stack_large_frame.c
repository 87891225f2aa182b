// A frame of a megabyte, touched at its far end first.
#include "corpus.h"

__attribute__((noinline)) static int large(int value)
{
    volatile char room[1 << 20];
    room[0] = value;
    return room[0];
}

int main(void)
{
    CHECK(large(5) == 5);
}
