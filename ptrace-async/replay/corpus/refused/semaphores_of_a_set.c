// The values of all semaphores of a set at once are refused.
// refused: semctl
#include "corpus.h"
#include <sys/ipc.h>
#include <sys/sem.h>

int main(void)
{
    unsigned short values[3] = {0, 5, 7};
    int set = OK(semget(IPC_PRIVATE, 3, IPC_CREAT | 0600));
    int done = semctl(set, 0, SETALL, values);
    printf("%d %d\n", done, done < 0 ? errno : 0);
    OK(semctl(set, 0, IPC_RMID));
}
