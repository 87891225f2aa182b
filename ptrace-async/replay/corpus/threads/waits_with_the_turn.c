// A thread that waits for another process again and again, while nobody else wants to run, and
// then for a thread.
// flags: -pthread
#include "corpus.h"
#include <semaphore.h>

#define ROUNDS 60

static sem_t begin;
static int to_main[2];

static void *work(void *unused)
{
    for (int turn = 0; turn < 3; turn++) {
        sem_wait(&begin);
        char byte = 'a' + turn;
        CHECK(write(to_main[1], &byte, 1) == 1);
    }
    return NULL;
}

int main(void)
{
    int there[2], back[2];
    OK(pipe(there));
    OK(pipe(back));
    OK(pipe(to_main));
    pid_t child = OK(fork());
    if (!child) {
        close(there[1]);
        char byte;
        while (read(there[0], &byte, 1) == 1)
            CHECK(write(back[1], &byte, 1) == 1);
        _exit(0);
    }
    sem_init(&begin, 0, 0);
    pthread_t thread;
    pthread_create(&thread, NULL, work, NULL);
    long sum = 0;
    for (int turn = 0; turn < 3; turn++) {
        char byte = 0;
        for (int round = 0; round < ROUNDS; round++) {
            CHECK(write(there[1], &byte, 1) == 1);
            CHECK(read(back[0], &byte, 1) == 1);
            sum += byte++;
        }
        sem_post(&begin);
        CHECK(read(to_main[0], &byte, 1) == 1);
        printf("%c %ld\n", byte, sum);
    }
    pthread_join(thread, NULL);
    close(there[1]);
    reap(child);
}
