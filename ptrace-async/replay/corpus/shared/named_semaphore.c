// A named semaphore between processes.
// flags: -pthread
#include "corpus.h"
#include <semaphore.h>

int main(void)
{
    char name[64];
    sprintf(name, "/corpus-%d", getpid());
    sem_t *semaphore = sem_open(name, O_CREAT, 0600, 0);
    CHECK(semaphore != SEM_FAILED);
    pid_t child = fork();
    if (!child) {
        for (int i = 0; i < 3; i++)
            sem_post(semaphore);
        _exit(0);
    }
    for (int i = 0; i < 3; i++)
        sem_wait(semaphore);
    reap(child);
    sem_unlink(name);
}
