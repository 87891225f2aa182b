// A thread made by clone itself, with a futex that tells its end.
#include "corpus.h"
#include <linux/futex.h>

static int alive = 1;
static volatile int done;

static int run(void *argument)
{
    done = *(int *)argument;
    return 0;
}

int main(void)
{
    char *stack = mmap(NULL, 1 << 16, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    int argument = getpid();
    int flags = CLONE_VM | CLONE_FS | CLONE_FILES | CLONE_SIGHAND | CLONE_THREAD |
                CLONE_SYSVSEM | CLONE_CHILD_CLEARTID;
    OK(clone(run, stack + (1 << 16), flags, &argument, NULL, NULL, &alive));
    while (__atomic_load_n(&alive, __ATOMIC_ACQUIRE))
        syscall(SYS_futex, &alive, FUTEX_WAIT, 1, NULL, NULL, 0);
    printf("%d\n", done);
    CHECK(done == argument);
}
