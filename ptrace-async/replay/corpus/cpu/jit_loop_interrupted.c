// A loop in code that the program makes itself, of instructions shorter than a jump, which a
// signal ends after millions of rounds.
#include "corpus.h"

static volatile int over;

static void note(int signal)
{
    over = 1;
}

int main(void)
{
    static const unsigned char loop[] = {
        0x31, 0xc0,       //    xor eax, eax
        0x48, 0xff, 0xc0, // 1: inc rax
        0xa8, 0x03,       //    test al, 3
        0x74, 0x02,       //    je 2f
        0xff, 0xc1,       //    inc ecx
        0x83, 0x3f, 0x00, // 2: cmp dword ptr [rdi], 0
        0x74, 0xf2,       //    je 1b
        0xc3,             //    ret
    };
    unsigned char *code = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    memcpy(code, loop, sizeof loop);
    OK(mprotect(code, 4096, PROT_READ | PROT_EXEC));
    handle(SIGALRM, note, 0);
    for (int time = 0; time < 3; time++) {
        over = 0;
        ualarm(60000, 0);
        unsigned long rounds = ((unsigned long (*)(volatile int *))code)(&over);
        printf("%lu rounds\n", rounds);
        CHECK(rounds > 1000000);
    }
}
