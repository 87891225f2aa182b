// Two threads that wait for each other in a loop of code that the program makes itself, and
// in which each takes turns of its own length.
#include "corpus.h"

static volatile int turn;
static unsigned long (*wait_for)(volatile int *, int);

static void *other(void *unused)
{
    unsigned long waited = 0;
    for (int round = 0; round < 50; round++) {
        waited += wait_for(&turn, 1);
        turn = 0;
    }
    printf("the other one waited for %lu rounds\n", waited);
    return NULL;
}

int main(void)
{
    static const unsigned char loop[] = {
        0x31, 0xc0,       //    xor eax, eax
        0xeb, 0x05,       //    jmp 2f
        0x48, 0xff, 0xc0, // 1: inc rax
        0xf3, 0x90,       //    pause
        0x39, 0x37,       // 2: cmp dword ptr [rdi], esi
        0x75, 0xf7,       //    jne 1b
        0xc3,             //    ret
    };
    void *code = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    memcpy(code, loop, sizeof loop);
    OK(mprotect(code, 4096, PROT_READ | PROT_EXEC));
    wait_for = (unsigned long (*)(volatile int *, int))code;
    pthread_t thread;
    CHECK(pthread_create(&thread, NULL, other, NULL) == 0);
    unsigned long waited = 0;
    for (int round = 0; round < 50; round++) {
        turn = 1;
        waited += wait_for(&turn, 0);
    }
    pthread_join(thread, NULL);
    printf("the first one waited for %lu rounds\n", waited);
    CHECK(waited > 0);
}
