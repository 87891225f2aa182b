// System V message queues.
#include "corpus.h"
#include <sys/ipc.h>
#include <sys/msg.h>

int main(void)
{
    struct {
        long type;
        char text[64];
    } message = {};
    int queue = OK(msgget(IPC_PRIVATE, IPC_CREAT | 0600));
    pid_t child = fork();
    if (!child) {
        message.type = 3;
        sprintf(message.text, "from %d", getpid());
        OK(msgsnd(queue, &message, sizeof message.text, 0));
        _exit(0);
    }
    CHECK(msgrcv(queue, &message, sizeof message.text, 3, 0) == sizeof message.text);
    puts(message.text);
    struct msqid_ds state;
    OK(msgctl(queue, IPC_STAT, &state));
    printf("%ld\n", (long)state.msg_stime);
    OK(msgctl(queue, IPC_RMID, NULL));
    reap(child);
}
