// prctl: names, death signals, dumpable, keepcaps, timer slack, no_new_privs.
#include "corpus.h"
#include <sys/prctl.h>

int main(void)
{
    char name[17] = {};
    int value = -1;
    OK(prctl(PR_SET_NAME, "a-corpus-name-too-long"));
    OK(prctl(PR_GET_NAME, name));
    puts(name);
    OK(prctl(PR_SET_PDEATHSIG, SIGUSR1));
    OK(prctl(PR_GET_PDEATHSIG, &value));
    CHECK(value == SIGUSR1);
    OK(prctl(PR_SET_PDEATHSIG, 0));
    printf("dumpable %d, slack %d, keep %d, privileges %d\n", prctl(PR_GET_DUMPABLE),
           prctl(PR_GET_TIMERSLACK), prctl(PR_GET_KEEPCAPS), prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0));
    int tsc = 0;
    OK(prctl(PR_GET_TSC, &tsc));
    printf("tsc %d\n", tsc);
    OK(prctl(PR_SET_TIMERSLACK, 1000));
    CHECK(prctl(PR_CAPBSET_READ, 0) >= 0);
}
