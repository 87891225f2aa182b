#include "text.h"

#include <stdlib.h>
#include <string.h>

void text_add(struct text *text, const char *bytes, size_t length)
{
    if (text->length + length + 1 > text->room) {
        size_t room = 2 * (text->length + length + 1);
        char *grown = realloc(text->bytes, room);

        if (grown == NULL) {
            fputs("greeter: out of memory\n", stderr);
            exit(1);
        }
        text->bytes = grown;
        text->room = room;
    }
    memcpy(text->bytes + text->length, bytes, length);
    text->length += length;
    text->bytes[text->length] = '\0';
}

void text_free(struct text *text)
{
    free(text->bytes);
    memset(text, 0, sizeof *text);
}

void text_fill(struct text *text, const char *from, const char *name)
{
    for (; *from != '\0'; from++) {
        if (*from == '%')
            text_add(text, name, strlen(name));
        else
            text_add(text, from, 1);
    }
}
