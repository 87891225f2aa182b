// The program executes itself, with arguments and an environment.
#include "corpus.h"

int main(int argc, char **argv)
{
    if (argc == 4) {
        printf("%s %s %s, %s\n", argv[1], argv[2], argv[3], getenv("CORPUS_VALUE"));
        return 0;
    }
    char number[32];
    sprintf(number, "CORPUS_VALUE=%d", getpid());
    execle("/proc/self/exe", "again", "one", "two words", "", NULL, (char *[]){number, NULL});
    return 1;
}
