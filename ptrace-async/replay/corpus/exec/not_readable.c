// A program that may be executed and not read, and a script that it interprets. What is not
// shown to the recorder is refused, and a recorder with rights is shown all.
// refused to users: execve
#include "corpus.h"

static int run(char *program)
{
    pid_t child = fork();
    if (!child) {
        execl(program, program, "again", "again", NULL);
        _exit(errno == EACCES ? 13 : 1);
    }
    int status;
    OK(waitpid(child, &status, 0));
    CHECK(WIFEXITED(status));
    return WEXITSTATUS(status);
}

int main(int count, char **arguments)
{
    (void)arguments;
    printf("%ld\n", now());
    if (count > 1)
        return 7;
    char bytes[4096], here[4096];
    int from = OK(open("/proc/self/exe", O_RDONLY)), to = OK(creat("program", 0700));
    for (ssize_t got; (got = OK(read(from, bytes, sizeof bytes)));)
        CHECK(write(to, bytes, got) == got);
    OK(fchmod(to, 0111));
    close(to);
    CHECK(getcwd(here, sizeof here));
    FILE *script = fopen("script", "w");
    fprintf(script, "#! %s/program  an argument\n", here);
    fclose(script);
    OK(chmod("script", 0700));
    int program = run("./program"), interpreter = run("./script");
    printf("%d %d\n", program, interpreter);
    CHECK(program == 7 || program == 13);
    CHECK(interpreter == program);
}
