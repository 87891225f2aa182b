// What a call leaves in registers: rcx and r11, and all others as they were.
#include "corpus.h"

int main(void)
{
    register unsigned long r8 __asm__("r8") = now(), r9 __asm__("r9") = 9, r10 __asm__("r10") = 10;
    unsigned long rcx, r11, rdx = 3, result;
    __asm__ volatile("syscall; nop"
                     : "=a"(result), "=c"(rcx), "+d"(rdx), "+r"(r8), "+r"(r9), "+r"(r10)
                     : "a"(SYS_getppid)
                     : "r11", "memory");
    unsigned long after8 = r8, after9 = r9, after10 = r10;
    __asm__ volatile("mov $39, %%eax; syscall; mov %%r11, %0" : "=r"(r11)::"rax", "rcx", "r11", "memory");
    printf("%lx %lx %lx\n", rcx, r11, after8);
    CHECK(rdx == 3 && after9 == 9 && after10 == 10 && (r11 & 0x202));
}
