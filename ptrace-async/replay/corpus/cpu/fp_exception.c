// An unmasked floating-point exception is SIGFPE.
// flags: -lm
#include "corpus.h"
#include <fenv.h>
#include <setjmp.h>

static sigjmp_buf back;

static void fault(int signal, siginfo_t *info, void *context)
{
    CHECK(info->si_code == FPE_FLTDIV);
    siglongjmp(back, 1);
}

int main(void)
{
    handle_info(SIGFPE, fault, 0);
    feenableexcept(FE_DIVBYZERO);
    volatile double zero = 0, one = 1;
    volatile int faults = 0;
    if (!sigsetjmp(back, 1))
        printf("%f\n", one / zero);
    else
        faults = 1;
    CHECK(faults);
}
