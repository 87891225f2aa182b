// A script is executed by its interpreter.
#include "corpus.h"

int main(void)
{
    FILE *script = fopen("script", "w");
    fprintf(script, "#!/bin/sh\necho script $$ \"$@\"\nexit 3\n");
    fclose(script);
    chmod("script", 0700);
    pid_t child = fork();
    if (!child) {
        execl("./script", "script", "an argument", NULL);
        _exit(1);
    }
    CHECK(reap(child) == 3);
}
