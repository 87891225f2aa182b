#include "table.h"

#include <string.h>

#include "greetings.h"

const struct greeting *greeting_at(size_t i)
{
    return i < sizeof greetings / sizeof greetings[0] ? &greetings[i] : NULL;
}

const struct greeting *greeting_in(const char *code)
{
    const struct greeting *g;
    size_t i;

    for (i = 0; (g = greeting_at(i)) != NULL; i++)
        if (strcmp(g->code, code) == 0)
            return g;
    return NULL;
}
