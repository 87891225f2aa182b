// The upper halves of AVX registers, across a signal and across calls.
// flags: -mavx
// needs: avx
#include "corpus.h"
#include <immintrin.h>

static void note(int signal)
{
    __asm__ volatile("vzeroall" ::: "memory");
}

int main(void)
{
    handle(SIGUSR1, note, 0);
    unsigned long in[4] = {now(), now() + 1, getpid(), 4}, out[4];
    long result;
    __asm__ volatile("vmovdqu (%1), %%ymm9; syscall; vmovdqu %%ymm9, (%2)"
                     : "=a"(result)
                     : "r"(in), "r"(out), "a"(SYS_kill), "D"(getpid()), "S"(SIGUSR1)
                     : "rcx", "r11", "memory");
    CHECK(memcmp(in, out, sizeof in) == 0);
    printf("%lx %lx %lx\n", out[0], out[1], out[2]);
}
