// Generated code that makes system calls and reads the time stamp counter.
#include "corpus.h"

int main(void)
{
    unsigned char *code = mmap(NULL, 4096, PROT_READ | PROT_WRITE | PROT_EXEC,
                               MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    // mov eax, 39; syscall; ret
    memcpy(code, "\xb8\x27\0\0\0\x0f\x05\xc3", 8);
    // rdtsc; shl rdx, 32; or rax, rdx; ret
    memcpy(code + 64, "\x0f\x31\x48\xc1\xe2\x20\x48\x09\xd0\xc3", 10);
    CHECK(((int (*)(void))code)() == getpid());
    printf("%d %lx\n", ((int (*)(void))code)(), ((long (*)(void))(code + 64))());
}
