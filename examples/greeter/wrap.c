#include <string.h>

#include "text.h"
#include "utf8.h"

void text_wrap(struct text *out, const char *from, size_t width)
{
    size_t column = 0;

    while (*from != '\0') {
        size_t word = strcspn(from, " \n");
        size_t columns = utf8_columns(from, word);

        if (column > 0 && column + 1 + columns > width) {
            text_add(out, "\n", 1);
            column = 0;
        }
        if (column > 0 && word > 0) {
            text_add(out, " ", 1);
            column++;
        }
        text_add(out, from, word);
        column += columns;
        from += word;
        if (*from == '\n') {
            text_add(out, "\n", 1);
            column = 0;
        }
        if (*from != '\0')
            from++;
    }
}
