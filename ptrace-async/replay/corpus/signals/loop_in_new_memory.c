// A loop that counts in memory, often in one page and then in one that is mapped only then,
// where a signal interrupts it.
#include "corpus.h"

static volatile int over;

static void note(int signal)
{
    over = 1;
}

// Without leaving what is counted in a register.
static inline int is(volatile long *one, volatile long *other)
{
    long left = *other;
    int same;
    __asm__ volatile("cmpq %1, %2; sete %b0; movzbl %b0, %0" : "=r"(same) : "r"(left), "m"(*one) : "cc");
    return same;
}

__attribute__((noinline)) static void count(volatile long *at, volatile long *until)
{
    do
        __asm__ volatile("incq %0" : "+m"(*at));
    while (!over && !is(at, until));
}

int main(void)
{
    long limits[4] = {500000, 1L << 60}, first = 0;
    handle(SIGALRM, note, 0);
    char *pages = mmap(NULL, 64 << 12, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    for (int i = 0; i < 8; i++) {
        OK(munmap(pages + (i << 12), 4096));
        OK(munmap(mmap(NULL, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0), 4096));
    }
    ualarm(30000, 0);
    count(&first, &limits[0]);
    // Such calls do not stop any more.
    volatile long *second = mmap(pages, 4096, PROT_READ | PROT_WRITE,
                                 MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
    CHECK(second != MAP_FAILED);
    count(second, &limits[1]);
    printf("%ld and %ld rounds\n", first, *second);
    CHECK(first == limits[0] && *second > 1000);
}
