// arch_prctl: a base of gs, and wrgsbase where it is allowed.
#include "corpus.h"
#include <asm/prctl.h>
#include <sys/auxv.h>

int main(void)
{
    static long words[4];
    unsigned long base = 0, got;
    words[1] = now();
    OK(syscall(SYS_arch_prctl, ARCH_SET_GS, words));
    __asm__ volatile("mov %%gs:8, %0" : "=r"(got));
    CHECK((long)got == words[1]);
    OK(syscall(SYS_arch_prctl, ARCH_GET_GS, &base));
    CHECK(base == (unsigned long)words);
    if (getauxval(AT_HWCAP2) & 2) {
        __asm__ volatile("wrgsbase %0" ::"r"(&words[1]));
        __asm__ volatile("mov %%gs:0, %0" : "=r"(got));
        CHECK((long)got == words[1]);
        getppid();
        __asm__ volatile("mov %%gs:0, %0" : "=r"(got));
        CHECK((long)got == words[1]);
    }
    printf("%lx\n", base);
}
