// perf_event_open and bpf are refused.
// refused: perf_event_open bpf
#include "corpus.h"

int main(void)
{
    char attr[128] = {};
    *(int *)(attr + 4) = 128;
    long perf = syscall(SYS_perf_event_open, attr, 0, -1, -1, 0);
    printf("%ld %d\n", perf, perf < 0 ? errno : 0);
    long bpf = syscall(SYS_bpf, 0, attr, sizeof attr);
    printf("%ld %d\n", bpf, bpf < 0 ? errno : 0);
}
