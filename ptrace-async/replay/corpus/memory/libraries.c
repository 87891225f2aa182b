// Libraries that are loaded, used and let go of, again and again.
// flags: -ldl
#include "corpus.h"
#include <dlfcn.h>

int main(void)
{
    const char *names[] = {"libm.so.6", "libresolv.so.2", "libanl.so.1", "libm.so.6"};
    for (int round = 0; round < 6; round++) {
        for (int i = 0; i < 4; i++) {
            void *library = dlopen(names[i], RTLD_NOW);
            if (!library)
                continue;
            double (*root)(double) = (double (*)(double)) dlsym(library, "sqrt");
            if (root)
                printf("%s: %.3f\n", names[i], root(round + i));
            // What is mapped there next is something else.
            dlclose(library);
            void *room = mmap(NULL, 1 << 20, PROT_READ | PROT_WRITE,
                              MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
            CHECK(room != MAP_FAILED);
            memset(room, i, 1 << 20);
            CHECK(mprotect(room, 4096, PROT_READ) == 0);
            CHECK(munmap((char *) room + 4096, 8192) == 0);
            CHECK(munmap(room, 1 << 20) == 0);
        }
    }
    return 0;
}
