/* Characters in UTF-8 and the columns they take. */
#ifndef UTF8_H
#define UTF8_H

#include <stddef.h>

/* Reads one character and moves `*at` behind it; a byte that begins none
   stands for itself. `*at` must not be at the terminating NUL. */
unsigned long utf8_next(const char **at);

/* Columns of the first `length` bytes on a terminal. */
size_t utf8_columns(const char *bytes, size_t length);

#endif
