// System V shared memory is refused.
// refused: shmget
#include "corpus.h"
#include <sys/ipc.h>
#include <sys/shm.h>

int main(void)
{
    int id = shmget(IPC_PRIVATE, 4096, IPC_CREAT | 0600);
    printf("%d %d\n", id, id < 0 ? errno : 0);
    if (id >= 0)
        shmctl(id, IPC_RMID, NULL);
}
