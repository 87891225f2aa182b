// System V semaphores: operations that wait, values of all.
#include "corpus.h"
#include <sys/ipc.h>
#include <sys/sem.h>

int main(void)
{
    int set = OK(semget(IPC_PRIVATE, 3, IPC_CREAT | 0600));
    for (int i = 0; i < 3; i++)
        OK(semctl(set, i, SETVAL, 5 * i));
    pid_t child = fork();
    if (!child) {
        pause_ms(3);
        struct sembuf up = {0, 2, 0};
        OK(semop(set, &up, 1));
        _exit(0);
    }
    struct sembuf down[2] = {{0, -1, 0}, {1, -1, SEM_UNDO}};
    OK(semop(set, down, 2));
    printf("down at %ld\n", now());
    for (int i = 0; i < 3; i++)
        CHECK(semctl(set, i, GETVAL) == 5 * i + (i == 0 ? 1 : i == 1 ? -1 : 0));
    printf("%d\n", semctl(set, 0, GETPID));
    OK(semctl(set, 0, IPC_RMID));
    reap(child);
}
