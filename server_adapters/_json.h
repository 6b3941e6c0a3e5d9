/* Where in a JSON text one is: _json.c. Each function goes on over what it names; false, wherever it then stands: it is
 * not there, or not exactly as it must be. */
#ifndef SPECLOAD_JSON_H
#define SPECLOAD_JSON_H

#include <stddef.h>
#include <stdint.h>

#define COUNT_DIGITS 10
#define COUNT_MOST 2147483647LL

typedef struct {
    const unsigned char *at, *end;
} Scan;

#pragma GCC visibility push(hidden) /* no other library's functions of the same name */
void scan_space(Scan *s);
/* One character, after space. */
int scan_mark(Scan *s, unsigned char wanted);
int scan_word(Scan *s, const char *word, size_t n);
/* After the quote; `*length`: of what stands between the quotes. */
int scan_text(Scan *s, size_t *length);
/* A whole number of at most so many digits; a sign, a fraction or an exponent is none. */
int scan_number(Scan *s, int digits, int64_t most, int64_t *value);
/* After the bracket: how many counts, up to and with the other. */
int scan_counts(Scan *s, int64_t *number);
#pragma GCC visibility pop

#endif
