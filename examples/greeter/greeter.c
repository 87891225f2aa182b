/* greeter: greets people in many languages.

   usage: greeter [-l LANGUAGE] [-w WIDTH] [-b] NAME...
          greeter -L */
#include <stdlib.h>
#include <string.h>

#include "table.h"
#include "text.h"

static int usage(void)
{
    fputs("usage: greeter [-l LANGUAGE] [-w WIDTH] [-b] NAME...\n"
          "       greeter -L    lists the languages\n",
          stderr);
    return 2;
}

static int list(void)
{
    const struct greeting *g;
    size_t i;

    for (i = 0; (g = greeting_at(i)) != NULL; i++)
        printf("%s  %s\n", g->code, g->language);
    return 0;
}

int main(int argc, char **argv)
{
    const char *language = "en";
    size_t width = 60;
    int box = 0, i;
    const struct greeting *greeting;
    struct text line = {0}, wrapped = {0};

    for (i = 1; i < argc && argv[i][0] == '-'; i++) {
        if (strcmp(argv[i], "-L") == 0)
            return list();
        else if (strcmp(argv[i], "-b") == 0)
            box = 1;
        else if (strcmp(argv[i], "-l") == 0 && i + 1 < argc)
            language = argv[++i];
        else if (strcmp(argv[i], "-w") == 0 && i + 1 < argc)
            width = (size_t)atol(argv[++i]);
        else
            return usage();
    }
    if (i == argc)
        return usage();
    greeting = greeting_in(language);
    if (greeting == NULL) {
        fprintf(stderr, "greeter: no greeting in `%s`; -L lists the languages\n", language);
        return 1;
    }
    for (; i < argc; i++) {
        text_fill(&line, greeting->text, argv[i]);
        text_add(&line, "\n", 1);
    }
    text_wrap(&wrapped, line.bytes, width);
    if (box)
        text_box(stdout, wrapped.bytes);
    else
        fputs(wrapped.bytes, stdout);
    text_free(&line);
    text_free(&wrapped);
    return 0;
}
