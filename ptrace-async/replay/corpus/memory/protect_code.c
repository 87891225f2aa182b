// The program's own code is made writable, changed, and run.
#include "corpus.h"

__attribute__((noinline, aligned(4096))) static int answer(void)
{
    __asm__ volatile("");
    return 41;
}

__attribute__((noinline, aligned(4096))) static void behind(void)
{
    __asm__ volatile("");
}

int main(void)
{
    int (*volatile call)(void) = answer;
    unsigned char *code = (unsigned char *)answer;
    CHECK(call() == 41);
    OK(mprotect(code, 4096, PROT_READ | PROT_WRITE | PROT_EXEC));
    for (int i = 0; i < 32; i++)
        if (code[i] == 41) {
            code[i] = 42;
            break;
        }
    OK(mprotect(code, 4096, PROT_READ | PROT_EXEC));
    CHECK(call() == 42);
    behind();
}
