// name_to_handle_at, where the file system has handles.
#include "corpus.h"

int main(void)
{
    struct {
        struct file_handle handle;
        char bytes[128];
    } room = {.handle.handle_bytes = 128};
    int mount = 0;
    close(OK(open("file", O_RDWR | O_CREAT, 0600)));
    int done = name_to_handle_at(AT_FDCWD, "file", &room.handle, &mount, 0);
    printf("%d %d, %u bytes, mount %d\n", done, done ? errno : 0, room.handle.handle_bytes, mount);
}
