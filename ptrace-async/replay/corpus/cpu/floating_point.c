// Floating point: x87, SSE, rounding modes, exceptions as flags.
// flags: -lm -frounding-math
#include "corpus.h"
#include <fenv.h>
#include <math.h>

int main(void)
{
    double start = now() % 1000003 / 7.0;
    long double extended = start;
    int modes[] = {FE_TONEAREST, FE_DOWNWARD, FE_UPWARD, FE_TOWARDZERO};
    for (int i = 0; i < 4; i++) {
        fesetround(modes[i]);
        volatile double value = start;
        for (int j = 0; j < 1000; j++) {
            value = sqrt(value * 1.000001) + sin(value);
            extended = extended / 1.0001L + value;
        }
        printf("%a %La\n", value, extended);
    }
    feclearexcept(FE_ALL_EXCEPT);
    volatile double zero = 0, one = 1;
    volatile double infinite = one / zero;
    CHECK(fetestexcept(FE_DIVBYZERO) && isinf(infinite));
}
