// Libraries that are loaded while the program runs.
// flags: -ldl
#include "corpus.h"
#include <dlfcn.h>

int main(void)
{
    for (int i = 0; i < 3; i++) {
        void *library = dlopen("libm.so.6", RTLD_NOW);
        if (!library)
            return 0;
        double (*cosine)(double) = (double (*)(double))dlsym(library, "cos");
        printf("%p %f\n", (void *)cosine, cosine(now() % 1000));
        dlclose(library);
    }
}
