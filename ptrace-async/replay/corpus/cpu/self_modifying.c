// Code that changes itself while it runs.
#include "corpus.h"

int main(void)
{
    unsigned char *code = mmap(NULL, 4096, PROT_READ | PROT_WRITE | PROT_EXEC,
                               MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(code != MAP_FAILED);
    // mov eax, imm32; ret
    memcpy(code, "\xb8\0\0\0\0\xc3", 6);
    long sum = 0;
    for (int i = 0; i < 1000; i++) {
        int value = i * getpid();
        memcpy(code + 1, &value, 4);
        __builtin___clear_cache((char *)code, (char *)code + 6);
        sum += ((int (*)(void))code)();
        CHECK(((int (*)(void))code)() == value);
    }
    printf("%ld\n", sum);
}
