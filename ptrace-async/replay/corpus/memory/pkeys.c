// Memory protection keys, where the processor has them: who may read and write is in a
// register of each thread, which it sets by an instruction of its own.
#include "corpus.h"
#include <sys/wait.h>

static volatile char *page;
static int key;
static volatile int faults;

static void on_fault(int signal, siginfo_t *info, void *context)
{
    (void) signal;
    printf("fault %d, code %d, key %d, on the page: %d\n", ++faults, info->si_code,
           info->si_code == SEGV_PKUERR ? (int) info->si_pkey : -1,
           (char *) info->si_addr == page);
    // What the handler may do and what the interrupted code may are two things.
    printf("rights in the handler %d\n", pkey_get(key));
    if (info->si_code == SEGV_PKUERR)
        OK(pkey_mprotect((void *) page, 4096, PROT_READ | PROT_WRITE, 0));
    else
        OK(mprotect((void *) page, 4096, PROT_READ | PROT_EXEC));
}

static void denied(void)
{
    int before = faults;
    page[0]++;
    CHECK(faults == before + 1);
    OK(pkey_mprotect((void *) page, 4096, PROT_READ | PROT_WRITE, key));
}

static void *other_thread(void *unused)
{
    (void) unused;
    printf("inherited rights %d\n", pkey_get(key));
    OK(pkey_set(key, 0));
    page[0]++;
    return NULL;
}

// Code that can only be executed has a key of the kernel's, where there are keys.
static void only_executed(void)
{
    static const unsigned char returns_7[] = {0xb8, 7, 0, 0, 0, 0xc3};
    page = OK(mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    memcpy((void *) page, returns_7, sizeof returns_7);
    OK(mprotect((void *) page, 4096, PROT_EXEC));
    CHECK(((int (*)(void)) page)() == 7);
    int before = faults;
    printf("first byte %x", (unsigned char) page[0]);
    printf(", %d faults\n", faults - before);
}

int main(void)
{
    handle_info(SIGSEGV, on_fault, SA_NODEFER);
    page = OK(mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    key = pkey_alloc(0, 0);
    printf("key %d\n", key);
    if (key < 0) {
        only_executed();
        return 0;
    }
    OK(pkey_mprotect((void *) page, 4096, PROT_READ | PROT_WRITE, key));
    page[0] = 1;

    // Denied by an instruction, and by the kernel on behalf of the call.
    OK(pkey_set(key, PKEY_DISABLE_WRITE));
    printf("still read %d\n", page[0]);
    denied();
    OK(pkey_set(key, PKEY_DISABLE_ACCESS));
    denied();
    int second = OK(pkey_alloc(0, PKEY_DISABLE_ACCESS));
    printf("key %d, rights %d\n", second, pkey_get(second));

    pthread_t thread;
    CHECK(pthread_create(&thread, NULL, other_thread, NULL) == 0);
    CHECK(pthread_join(thread, NULL) == 0);
    printf("rights %d\n", pkey_get(key));
    fflush(stdout);

    // A child has the same keys and rights.
    pid_t child = OK(fork());
    if (child == 0) {
        printf("the child's rights %d\n", pkey_get(key));
        denied();
        printf("the child's key %d\n", OK(pkey_alloc(0, 0)));
        fflush(stdout);
        _exit(3);
    }
    int status;
    OK(waitpid(child, &status, 0));
    CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 3);

    // What the kernel does for the program heeds the rights as well.
    int ends[2];
    OK(pipe(ends));
    CHECK(write(ends[1], (void *) page, 1) == -1 && errno == EFAULT);
    OK(pkey_set(key, 0));
    CHECK(write(ends[1], (void *) page, 1) == 1);
    printf("at last %d\n", page[0]);

    OK(pkey_free(second));
    printf("key %d again\n", OK(pkey_alloc(0, PKEY_DISABLE_WRITE)));
    OK(pkey_free(second));
    OK(pkey_mprotect((void *) page, 4096, PROT_READ | PROT_WRITE, 0));
    OK(pkey_free(key));
    CHECK(pkey_free(key) == -1 && errno == EINVAL);
    only_executed();
}
