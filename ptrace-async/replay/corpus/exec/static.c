// A static program, which executes itself.
// flags: -static -pthread
#include "corpus.h"

static void *run(void *unused)
{
    return (void *)(long)gettid();
}

int main(int argc, char **argv)
{
    pthread_t thread;
    void *id;
    pthread_create(&thread, NULL, run, NULL);
    pthread_join(thread, &id);
    printf("%ld, %d\n", (long)id, argc);
    if (argc == 1)
        execl("/proc/self/exe", argv[0], "again", NULL);
}
