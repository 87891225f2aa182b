// An interpreter whose loop has the same registers in each round and counts in memory, until
// a signal's handler says that it is over.
#include "corpus.h"

struct machine {
    volatile long count, limit;
    const struct step *at;
};
struct step {
    void (*run)(struct machine *);
    const struct step *next;
};

static volatile int over;

static void note(int signal)
{
    over = 1;
}

static void add(struct machine *machine)
{
    __asm__ volatile("incq %0" : "+m"(machine->count));
}

static void nothing(struct machine *machine)
{
}

static void test(struct machine *machine)
{
    if (over)
        machine->at = NULL;
}

int main(void)
{
    static struct step program[40];
    for (int i = 0; i < 40; i++)
        program[i] = (struct step){nothing, &program[(i + 1) % 40]};
    program[0].run = add;
    program[39].run = test;
    handle(SIGALRM, note, 0);
    for (int time = 0; time < 4; time++) {
        struct machine machine = {0, 0, program};
        over = 0;
        ualarm(15000, 0);
        while (machine.at) {
            void (*run)(struct machine *) = machine.at->run;
            machine.at = machine.at->next;
            run(&machine);
        }
        printf("%ld rounds\n", machine.count);
        CHECK(machine.count > 1000);
    }
}
