// A stack with compare-and-swap, shared by four threads.
// flags: -pthread
#include "corpus.h"

struct node {
    struct node *next;
    long value;
};
static struct node *top;

static void *push(void *number)
{
    for (int i = 0; i < 50; i++) {
        struct node *node = malloc(sizeof *node);
        node->value = (long)number * 100 + i;
        node->next = __atomic_load_n(&top, __ATOMIC_RELAXED);
        while (!__atomic_compare_exchange_n(&top, &node->next, node, 1, __ATOMIC_RELEASE,
                                            __ATOMIC_RELAXED))
            ;
        if (i % 5 == 0)
            sched_yield();
    }
    return NULL;
}

int main(void)
{
    pthread_t threads[4];
    int count = 0;
    for (long i = 0; i < 4; i++)
        pthread_create(&threads[i], NULL, push, (void *)i);
    for (int i = 0; i < 4; i++)
        pthread_join(threads[i], NULL);
    for (struct node *node = top; node; node = node->next, count++)
        printf("%ld at %p\n", node->value, (void *)node);
    CHECK(count == 200);
}
