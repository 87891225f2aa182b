// Instructions that go on for milliseconds, and others meanwhile.
// flags: -pthread
#include "corpus.h"
#include <pthread.h>
#include <stdatomic.h>

enum { LENGTH = 8 << 20, ROUNDS = 40 };
static unsigned char memory[2][LENGTH];
static atomic_ulong rounds;
static atomic_int ended;

static void *fill(void *unused)
{
    for (int round = 0; round < ROUNDS; round++) {
        void *to = memory[0];
        size_t count = LENGTH;
        __asm__ volatile("rep stosb" : "+D"(to), "+c"(count) : "a"(round) : "memory");
        void *from = memory[0];
        to = memory[1];
        count = LENGTH / 8;
        __asm__ volatile("rep movsq" : "+D"(to), "+S"(from), "+c"(count) : : "memory");
        atomic_fetch_add(&rounds, 1);
    }
    atomic_store(&ended, 1);
    return unused;
}

int main(void)
{
    pthread_t thread;
    CHECK(pthread_create(&thread, NULL, fill, NULL) == 0);
    // When it is seen, and in how many of our rounds, differs.
    unsigned long seen = 0, spins = 0, sum = 0;
    while (!atomic_load(&ended)) {
        spins++;
        unsigned long now = atomic_load(&rounds);
        if (now != seen) {
            seen = now;
            sum = sum * 31 + spins + memory[0][LENGTH / 2] + memory[1][LENGTH / 3];
        }
    }
    pthread_join(thread, NULL);
    printf("%lu rounds, %lu spins, %lu\n", seen, spins, sum);
    return 0;
}
