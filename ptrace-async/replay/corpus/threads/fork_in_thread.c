// A thread forks while others hold locks; handlers of pthread_atfork run.
// flags: -pthread
#include "corpus.h"

static int prepared, parents;
static void prepare(void) { prepared++; }
static void parent(void) { parents++; }
static void child(void) { prepared += 10; }

static void *run(void *unused)
{
    pid_t pid = fork();
    if (!pid) {
        printf("child %d: %d\n", getpid(), prepared);
        exit(prepared);
    }
    CHECK(reap(pid) >= 11);
    return NULL;
}

int main(void)
{
    pthread_t threads[3];
    pthread_atfork(prepare, parent, child);
    for (int i = 0; i < 3; i++) {
        pthread_create(&threads[i], NULL, run, NULL);
    }
    for (int i = 0; i < 3; i++)
        pthread_join(threads[i], NULL);
    CHECK(parents == 3);
}
