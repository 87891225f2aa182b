// system and popen.
#include "corpus.h"

int main(void)
{
    char text[64];
    CHECK(WEXITSTATUS(system("exit 9")) == 9);
    FILE *pipe = popen("echo popen $$", "r");
    CHECK(fgets(text, sizeof text, pipe));
    printf("%s", text);
    CHECK(pclose(pipe) == 0);
    pipe = popen("cat", "w");
    fprintf(pipe, "to cat from %d\n", getpid());
    CHECK(pclose(pipe) == 0);
}
