// POSIX message queues, between a parent and its child.
// flags: -lrt
#include "corpus.h"
#include <mqueue.h>

int main(void)
{
    char name[64], text[128] = {};
    unsigned priority;
    struct mq_attr attr = {.mq_maxmsg = 4, .mq_msgsize = sizeof text};
    sprintf(name, "/corpus-%d", getpid());
    mqd_t queue = mq_open(name, O_RDWR | O_CREAT, 0600, &attr);
    printf("%d\n", queue);
    if (queue == -1)
        return 0;
    pid_t child = fork();
    if (!child) {
        sprintf(text, "urgent from %d", getpid());
        OK(mq_send(queue, "first", 6, 1));
        OK(mq_send(queue, text, strlen(text), 9));
        _exit(0);
    }
    reap(child);
    CHECK(mq_receive(queue, text, sizeof text, &priority) > 0 && priority == 9);
    puts(text);
    OK(mq_getattr(queue, &attr));
    CHECK(attr.mq_curmsgs == 1);
    mq_close(queue);
    mq_unlink(name);
}
