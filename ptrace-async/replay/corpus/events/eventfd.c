// eventfd as a counter and as a semaphore, between threads.
// flags: -pthread
#include "corpus.h"
#include <sys/eventfd.h>

static int counter, semaphore;

static void *run(void *unused)
{
    for (int i = 0; i < 5; i++) {
        eventfd_write(counter, i + 1);
        pause_ms(1);
    }
    eventfd_write(semaphore, 3);
    return NULL;
}

int main(void)
{
    pthread_t thread;
    eventfd_t value, all = 0;
    counter = OK(eventfd(0, EFD_CLOEXEC));
    semaphore = OK(eventfd(0, EFD_SEMAPHORE));
    pthread_create(&thread, NULL, run, NULL);
    while (all < 15) {
        OK(eventfd_read(counter, &value));
        all += value;
        printf("%ld ", (long)value);
    }
    putchar('\n');
    for (int i = 0; i < 3; i++) {
        OK(eventfd_read(semaphore, &value));
        CHECK(value == 1);
    }
    pthread_join(thread, NULL);
}
