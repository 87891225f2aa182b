// inotify tells what happens to files.
#include "corpus.h"
#include <sys/inotify.h>

int main(void)
{
    char buffer[4096] __attribute__((aligned(8)));
    int fd = OK(inotify_init1(IN_CLOEXEC));
    int watch = OK(inotify_add_watch(fd, ".", IN_ALL_EVENTS));
    close(OK(open("file", O_RDWR | O_CREAT, 0600)));
    rename("file", "other");
    unlink("other");
    long got = OK(read(fd, buffer, sizeof buffer));
    for (long at = 0; at < got;) {
        struct inotify_event *event = (void *)(buffer + at);
        printf("%x %u %s\n", event->mask, event->cookie, event->len ? event->name : "");
        at += sizeof *event + event->len;
    }
    OK(inotify_rm_watch(fd, watch));
}
