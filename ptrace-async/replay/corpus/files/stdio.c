// Buffered streams: reading lines of /proc files and own files.
#include "corpus.h"

int main(void)
{
    char line[512];
    FILE *file = fopen("file", "w+");
    for (int i = 0; i < 500; i++)
        fprintf(file, "line %d of %d\n", i, getpid());
    rewind(file);
    int lines = 0;
    while (fgets(line, sizeof line, file))
        lines++;
    CHECK(lines == 500);
    fclose(file);
    file = fopen("/proc/meminfo", "r");
    while (fgets(line, sizeof line, file))
        if (strncmp(line, "MemFree", 7) == 0 || strncmp(line, "Cached", 6) == 0)
            printf("%s", line);
    fclose(file);
}
