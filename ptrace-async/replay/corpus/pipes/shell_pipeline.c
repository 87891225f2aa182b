// A pipeline of a shell, of four programs.
#include "corpus.h"

int main(void)
{
    CHECK(system("(echo $$; ls / ; date +%N) | sort -r | tr a-z A-Z | head -5; echo $?") == 0);
}
