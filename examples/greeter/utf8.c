#include "utf8.h"

unsigned long utf8_next(const char **at)
{
    const unsigned char *p = (const unsigned char *)*at;
    unsigned long code = p[0];
    int more = 0, i;

    if (p[0] >= 0xf0) {
        if (p[0] <= 0xf4) {
            code = p[0] & 0x07;
            more = 3;
        }
    } else if (p[0] >= 0xe0) {
        code = p[0] & 0x0f;
        more = 2;
    } else if (p[0] >= 0xc2) {
        code = p[0] & 0x1f;
        more = 1;
    }
    for (i = 1; i <= more; i++) {
        if ((p[i] & 0xc0) != 0x80) {
            code = p[0];
            more = 0;
            break;
        }
        code = code << 6 | (p[i] & 0x3f);
    }
    *at += 1 + more;
    return code;
}

/* East Asian wide characters, roughly. */
static int is_wide(unsigned long code)
{
    return (code >= 0x1100 && code <= 0x115f) || (code >= 0x2e80 && code <= 0xa4cf) ||
           (code >= 0xac00 && code <= 0xd7a3) || (code >= 0xf900 && code <= 0xfaff) ||
           (code >= 0xfe30 && code <= 0xfe6f) || (code >= 0xff00 && code <= 0xff60);
}

/* Accents that stand on the letter before. */
static int is_combining(unsigned long code)
{
    return code >= 0x0300 && code <= 0x036f;
}

size_t utf8_columns(const char *bytes, size_t length)
{
    const char *at = bytes, *end = bytes + length;
    size_t columns = 0;

    while (at < end && *at != '\0') {
        unsigned long code = utf8_next(&at);

        columns += is_combining(code) ? 0 : is_wide(code) ? 2 : 1;
    }
    return columns;
}
