// Filters of the program's own are refused.
// refused: seccomp prctl
#include "corpus.h"
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>

int main(void)
{
    struct sock_filter allow = {BPF_RET | BPF_K, 0, 0, SECCOMP_RET_ALLOW};
    struct sock_fprog program = {1, &allow};
    OK(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0));
    int one = prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program);
    int other = syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &program);
    printf("%d %d %d\n", one, other, getpid());
}
