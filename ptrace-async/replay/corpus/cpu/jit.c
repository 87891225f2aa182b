// A JIT: code is written to a page, made executable, run, and thrown away.
#include "corpus.h"

int main(void)
{
    for (int round = 0; round < 20; round++) {
        unsigned char *code = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        int at = 0, expected = 0;
        code[at++] = 0x31;
        code[at++] = 0xc0; // xor eax, eax
        for (int i = 0; i < 50; i++) {
            int value = round * 1000 + i + getpid();
            code[at++] = 0x05; // add eax, imm32
            memcpy(code + at, &value, 4);
            at += 4;
            expected += value;
        }
        code[at++] = 0xc3;
        OK(mprotect(code, 4096, PROT_READ | PROT_EXEC));
        int got = ((int (*)(void))code)();
        printf("%p: %d\n", (void *)code, got);
        CHECK(got == expected);
        munmap(code, 4096);
    }
}
