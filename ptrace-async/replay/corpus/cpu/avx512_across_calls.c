// AVX-512 registers and masks across calls and signals.
// flags: -mavx512f
// needs: avx512f
#include "corpus.h"

static void note(int signal)
{
    __asm__ volatile("vpxorq %%zmm20, %%zmm20, %%zmm20; kxorw %%k3, %%k3, %%k3" ::: "memory");
}

int main(void)
{
    handle(SIGUSR1, note, 0);
    unsigned long in[8], out[8], mask;
    for (int i = 0; i < 8; i++)
        in[i] = now() * (i + 1);
    long result;
    __asm__ volatile("vmovdqu64 (%2), %%zmm20; kmovw %k6, %%k3; syscall; vmovdqu64 %%zmm20, (%3); kmovw %%k3, %k1"
                     : "=a"(result), "=&r"(mask)
                     : "r"(in), "r"(out), "a"(SYS_kill), "D"(getpid()), "r"((unsigned)(now() & 0xffff)), "S"(SIGUSR1)
                     : "rcx", "r11", "memory");
    CHECK(memcmp(in, out, sizeof in) == 0);
    printf("%lx %lx\n", out[7], mask);
}
