// Keys: keyctl is refused, adding a key is not.
// refused: keyctl
#include "corpus.h"

int main(void)
{
    long session = syscall(SYS_keyctl, 0, -3, 0);
    printf("session %ld, %d\n", session, errno);
    long key = syscall(SYS_add_key, "user", "corpus", "secret", 6, -1);
    printf("key %ld, %d\n", key, key < 0 ? errno : 0);
    if (key > 0) {
        char text[16] = {};
        long got = syscall(SYS_keyctl, 11, key, text, sizeof text);
        printf("%ld %s\n", got, text);
        CHECK(got < 0 || memcmp(text, "secret", 6) == 0);
    }
}
