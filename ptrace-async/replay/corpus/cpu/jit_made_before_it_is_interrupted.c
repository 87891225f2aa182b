// Code that a program makes, in memory that it has had before, and is interrupted in without
// having made a call between the two.
#include "corpus.h"

static volatile int over;

static void note(int signal)
{
    over = 1;
}

int main(void)
{
    static const unsigned char loop[] = {
        0x31, 0xc0,                         //    xor eax, eax
        0x48, 0x81, 0xc0, 0x03, 0, 0, 0,    // 1: add rax, 3
        0x83, 0x3f, 0x00,                   // 2: cmp dword ptr [rdi], 0
        0x74, 0xf4,                         //    je 1b
        0xc3,                               //    ret
    };
    unsigned char *code = mmap(NULL, 1 << 16, PROT_READ | PROT_WRITE | PROT_EXEC,
                               MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(code != MAP_FAILED);
    unsigned long sums[6];
    handle(SIGALRM, note, 0);
    for (int time = 0; time < 6; time++) {
        over = 0;
        unsigned char *here = code + time * 4096 + 16 * (getpid() & 15);
        ualarm(20000, 0);
        for (unsigned i = 0; i < sizeof loop; i++)
            here[i] = loop[i];
        sums[time] = ((unsigned long (*)(volatile int *))here)(&over);
    }
    for (int time = 0; time < 6; time++) {
        printf("%lu\n", sums[time]);
        CHECK(sums[time] > 1000);
    }
}
