#include <string.h>

#include "text.h"
#include "utf8.h"

static void edge(FILE *out, size_t width)
{
    putc('+', out);
    for (width += 2; width > 0; width--)
        putc('-', out);
    fputs("+\n", out);
}

void text_box(FILE *out, const char *lines)
{
    const char *line;
    size_t widest = 0;

    for (line = lines; *line != '\0'; line += strcspn(line, "\n"), line += *line == '\n') {
        size_t columns = utf8_columns(line, strcspn(line, "\n"));

        widest = columns > widest ? columns : widest;
    }
    edge(out, widest);
    for (line = lines; *line != '\0'; line += strcspn(line, "\n"), line += *line == '\n') {
        size_t length = strcspn(line, "\n");
        size_t space = widest - utf8_columns(line, length);

        fputs("| ", out);
        fwrite(line, 1, length, out);
        for (; space > 0; space--)
            putc(' ', out);
        fputs(" |\n", out);
    }
    edge(out, widest);
}
