// Two hundred threads, made and joined.
// flags: -pthread
#include "corpus.h"

static int sum;

static void *run(void *number)
{
    __atomic_fetch_add(&sum, (long)number, __ATOMIC_RELAXED);
    return (void *)(long)gettid();
}

int main(void)
{
    for (int round = 0; round < 10; round++) {
        pthread_t threads[20];
        void *id;
        for (long i = 0; i < 20; i++)
            CHECK(pthread_create(&threads[i], NULL, run, (void *)i) == 0);
        for (int i = 0; i < 20; i++) {
            pthread_join(threads[i], &id);
            printf("%ld ", (long)id);
        }
        putchar('\n');
    }
    CHECK(sum == 1900);
}
