// A thread is cancelled where it waits, and its clean-up runs.
// flags: -pthread
#include "corpus.h"

static int cleaned;

static void clean(void *value)
{
    cleaned += (long)value;
}

static void *run(void *unused)
{
    pthread_cleanup_push(clean, (void *)7);
    for (;;)
        pause();
    pthread_cleanup_pop(0);
}

int main(void)
{
    pthread_t thread;
    void *result;
    pthread_create(&thread, NULL, run, NULL);
    pause_ms(5);
    pthread_cancel(thread);
    pthread_join(thread, &result);
    CHECK(result == PTHREAD_CANCELED && cleaned == 7);
}
