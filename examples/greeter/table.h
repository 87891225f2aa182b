/* The greetings by language. */
#ifndef TABLE_H
#define TABLE_H

#include <stddef.h>

struct greeting {
    const char *code;     /* two letters */
    const char *language; /* its English name */
    const char *text;     /* with one % where the name goes */
};

/* The greeting in a language, or NULL. */
const struct greeting *greeting_in(const char *code);

/* Greeting number i, or NULL after the last. */
const struct greeting *greeting_at(size_t i);

#endif
