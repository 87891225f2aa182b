// A library that the program builds and loads, and then replaces by another.
// flags: -ldl
#include "corpus.h"
#include <dlfcn.h>

static int load(int value)
{
    char command[256], name[64];
    sprintf(name, "./library%d.so", value);
    snprintf(command, sizeof command, "echo 'int value(void) { return %d; }' | cc -shared -fPIC -x c -o %s -",
             value, name);
    CHECK(system(command) == 0);
    void *library = dlopen(name, RTLD_NOW);
    CHECK(library);
    int (*get)(void) = (int (*)(void))dlsym(library, "value");
    int got = get();
    dlclose(library);
    unlink(name);
    return got;
}

int main(void)
{
    for (int i = 1; i <= 2; i++)
        CHECK(load(i) == i);
    printf("%ld\n", now());
}
