// A program that is deleted while it runs, and executes itself then.
#include "corpus.h"

static void copy(const char *to)
{
    char command[4200];
    char self[4000];
    ssize_t length = OK(readlink("/proc/self/exe", self, sizeof self - 1));
    self[length] = 0;
    snprintf(command, sizeof command, "cp '%s' %s", self, to);
    CHECK(system(command) == 0);
}

int main(int argc, char **argv)
{
    if (argc == 1) {
        copy("copy");
        execl("./copy", "copy", "1", NULL);
        return 1;
    }
    char self[4000] = {};
    if (argv[1][0] == '1') {
        unlink("copy");
        execl("/proc/self/exe", "copy", "2", NULL);
        return 2;
    }
    OK(readlink("/proc/self/exe", self, sizeof self - 1));
    puts(self);
    CHECK(strstr(self, " (deleted)"));
}
