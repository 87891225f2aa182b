// What stays across an execution: the mask, what is ignored, what is pending; timers.
#include "corpus.h"

static void note(int signal)
{
}

int main(int argc, char **argv)
{
    sigset_t set;
    sigemptyset(&set);
    if (argc > 1) {
        struct sigaction action;
        sigpending(&set);
        CHECK(sigismember(&set, SIGUSR1));
        sigaction(SIGUSR2, NULL, &action);
        CHECK(action.sa_handler == SIG_IGN);
        sigaction(SIGALRM, NULL, &action);
        CHECK(action.sa_handler == SIG_DFL);
        printf("alarm in %u\n", alarm(0));
        return 0;
    }
    handle(SIGALRM, note, 0);
    signal(SIGUSR2, SIG_IGN);
    sigaddset(&set, SIGUSR1);
    sigprocmask(SIG_BLOCK, &set, NULL);
    raise(SIGUSR1);
    alarm(100);
    execl("/proc/self/exe", argv[0], "again", NULL);
    return 1;
}
