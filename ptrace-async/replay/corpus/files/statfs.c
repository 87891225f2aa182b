// statfs and fstatfs.
#include "corpus.h"
#include <sys/statfs.h>
#include <sys/statvfs.h>

int main(void)
{
    struct statfs fs;
    struct statvfs vfs;
    OK(statfs(".", &fs));
    printf("%lx, %ld blocks free\n", (long)fs.f_type, (long)fs.f_bfree);
    OK(statvfs("/proc", &vfs));
    printf("%lu\n", vfs.f_files);
}
