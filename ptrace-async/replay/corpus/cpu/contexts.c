// makecontext and swapcontext: stacks of the program's own.
#include "corpus.h"

static ucontext_t all[3], main_context;
static int order[60], count;

static void run(int me)
{
    for (int i = 0; i < 20; i++) {
        order[count++] = me;
        swapcontext(&all[me], &all[(me + 1 + now() % 2) % 3]);
    }
}

int main(void)
{
    for (int i = 0; i < 3; i++) {
        getcontext(&all[i]);
        all[i].uc_stack.ss_sp = malloc(1 << 16);
        all[i].uc_stack.ss_size = 1 << 16;
        all[i].uc_link = &main_context;
        makecontext(&all[i], (void (*)(void))run, 1, i);
    }
    swapcontext(&main_context, &all[0]);
    for (int i = 0; i < count; i++)
        putchar('0' + order[i]);
    putchar('\n');
}
