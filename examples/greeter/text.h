/* Strings that grow, wrapped text, and boxes around it. */
#ifndef TEXT_H
#define TEXT_H

#include <stddef.h>
#include <stdio.h>

struct text {
    char *bytes; /* ends with a NUL */
    size_t length;
    size_t room;
};

void text_add(struct text *text, const char *bytes, size_t length);
void text_free(struct text *text);

/* Adds `from` with each % replaced by `name`. */
void text_fill(struct text *text, const char *from, const char *name);

/* Breaks lines at spaces so that they take at most `width` columns, where
   words allow it. */
void text_wrap(struct text *out, const char *from, size_t width);

/* Prints lines in a box as wide as the widest. */
void text_box(FILE *out, const char *lines);

#endif
