// posix_spawn with file actions and attributes.
#include "corpus.h"
#include <spawn.h>

int main(void)
{
    extern char **environ;
    int ends[2];
    pid_t child;
    char text[64] = {};
    posix_spawn_file_actions_t actions;
    posix_spawnattr_t attributes;
    OK(pipe(ends));
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, ends[1], 1);
    posix_spawn_file_actions_addclose(&actions, ends[0]);
    posix_spawnattr_init(&attributes);
    posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETPGROUP);
    char *args[] = {"sh", "-c", "echo spawned $$", NULL};
    CHECK(posix_spawn(&child, "/bin/sh", &actions, &attributes, args, environ) == 0);
    close(ends[1]);
    CHECK(read(ends[0], text, sizeof text - 1) > 0);
    printf("%s", text);
    CHECK(reap(child) == 0);
    CHECK(posix_spawn(&child, "/nowhere", NULL, NULL, args, environ) == ENOENT);
}
