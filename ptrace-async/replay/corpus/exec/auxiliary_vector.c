// The auxiliary vector: random bytes, the vdso, the program's name.
#include "corpus.h"
#include <sys/auxv.h>

int main(void)
{
    unsigned char *random = (unsigned char *)getauxval(AT_RANDOM);
    for (int i = 0; i < 16; i++)
        printf("%02x", random[i]);
    printf("\n%lx %s %lx %ld\n", getauxval(AT_SYSINFO_EHDR), (char *)getauxval(AT_EXECFN),
           getauxval(AT_HWCAP2), getauxval(AT_UID));
}
