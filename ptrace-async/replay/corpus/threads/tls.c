// Thread-local variables and keys with destructors.
// flags: -pthread
#include "corpus.h"

static _Thread_local int local = 5;
static pthread_key_t key;
static int destroyed;

static void destroy(void *value)
{
    destroyed += *(int *)value;
    free(value);
}

static void *run(void *number)
{
    int *value = malloc(sizeof *value);
    *value = (long)number;
    pthread_setspecific(key, value);
    local += (long)number;
    printf("thread %ld: %d at %p\n", (long)number, local, (void *)&local);
    return NULL;
}

int main(void)
{
    pthread_t threads[4];
    pthread_key_create(&key, destroy);
    for (long i = 0; i < 4; i++)
        pthread_create(&threads[i], NULL, run, (void *)(i + 1));
    for (int i = 0; i < 4; i++)
        pthread_join(threads[i], NULL);
    CHECK(destroyed == 10 && local == 5);
}
