// SSE registers keep their values while handlers change them.
#include "corpus.h"

static void note(int signal)
{
    __asm__ volatile("pcmpeqd %%xmm0, %%xmm0; pxor %%xmm7, %%xmm7; pcmpeqd %%xmm15, %%xmm15" ::: "memory");
}

int main(void)
{
    handle(SIGUSR1, note, 0);
    unsigned long in = now(), out = 0, out15 = 0;
    long pid = getpid(), result;
    __asm__ volatile("movq %3, %%xmm0; movq %3, %%xmm15; syscall; movq %%xmm0, %1; movq %%xmm15, %2"
                     : "=a"(result), "=r"(out), "=r"(out15)
                     : "r"(in), "a"(SYS_kill), "D"(pid), "S"(SIGUSR1)
                     : "rcx", "r11", "memory");
    printf("%lx\n", out);
    CHECK(result == 0 && out == in && out15 == in);
}
