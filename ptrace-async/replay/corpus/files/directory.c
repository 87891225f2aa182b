// A directory is filled and listed, by getdents64 and by the old getdents.
#include "corpus.h"
#include <dirent.h>

int main(void)
{
    char name[64], buffer[1024];
    for (int i = 0; i < 100; i++) {
        sprintf(name, "file-%d-%ld", i, now() % 1000);
        close(OK(open(name, O_CREAT | O_WRONLY, 0600)));
    }
    DIR *directory = opendir(".");
    struct dirent *entry;
    int count = 0;
    while ((entry = readdir(directory))) {
        printf("%s %ld\n", entry->d_name, (long)entry->d_ino);
        count++;
    }
    rewinddir(directory);
    CHECK(count == 102 && readdir(directory));
    closedir(directory);
    int fd = OK(open(".", O_RDONLY | O_DIRECTORY));
    long got, bytes = 0;
    while ((got = OK(syscall(SYS_getdents, fd, buffer, sizeof buffer))) > 0)
        bytes += got;
    printf("%ld bytes\n", bytes);
}
