// A mutex and a condition variable in shared memory, between processes.
// flags: -pthread
#include "corpus.h"

struct common {
    pthread_mutex_t mutex;
    pthread_cond_t cond;
    int turn, order[60];
};

int main(void)
{
    struct common *common = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    pthread_mutexattr_t mutexes;
    pthread_condattr_t conds;
    pthread_mutexattr_init(&mutexes);
    pthread_condattr_init(&conds);
    pthread_mutexattr_setpshared(&mutexes, PTHREAD_PROCESS_SHARED);
    pthread_condattr_setpshared(&conds, PTHREAD_PROCESS_SHARED);
    pthread_mutex_init(&common->mutex, &mutexes);
    pthread_cond_init(&common->cond, &conds);
    for (int me = 0; me < 3; me++)
        if (!fork()) {
            for (int i = 0; i < 20; i++) {
                pthread_mutex_lock(&common->mutex);
                if (i % 2)
                    while (common->turn % 3 == me && common->turn < 30)
                        pthread_cond_wait(&common->cond, &common->mutex);
                common->order[common->turn++] = me;
                pthread_cond_broadcast(&common->cond);
                pthread_mutex_unlock(&common->mutex);
            }
            _exit(0);
        }
    for (int i = 0; i < 3; i++) {
        int status;
        CHECK(wait(&status) > 0 && status == 0);
    }
    for (int i = 0; i < 60; i++)
        putchar('0' + common->order[i]);
    putchar('\n');
}
