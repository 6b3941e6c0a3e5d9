/* Pieces of JSON, found without making anything of them: _json.h. UTF-8 and escapes are checked, as msgspec and orjson do. */
#include "_json.h"

#include <string.h>

void scan_space(Scan *s)
{
    while (s->at < s->end && (*s->at == ' ' || *s->at == '\t'))
        s->at++;
}

int scan_mark(Scan *s, unsigned char wanted)
{
    scan_space(s);
    if (s->at == s->end || *s->at != wanted)
        return 0;
    s->at++;
    return 1;
}

int scan_word(Scan *s, const char *word, size_t n)
{
    if ((size_t)(s->end - s->at) < n || memcmp(s->at, word, n) != 0)
        return 0;
    s->at += n;
    return 1;
}

/* One character of more than a byte, as RFC 3629 has it. */
static int scan_character(Scan *s)
{
    const unsigned char *p = s->at;
    size_t left = (size_t)(s->end - p), more, i;
    unsigned char low = 0x80, high = 0xBF;
    if (p[0] >= 0xC2 && p[0] <= 0xDF) {
        more = 1;
    } else if (p[0] >= 0xE0 && p[0] <= 0xEF) {
        more = 2;
        low = p[0] == 0xE0 ? 0xA0 : low;
        high = p[0] == 0xED ? 0x9F : high;
    } else if (p[0] >= 0xF0 && p[0] <= 0xF4) {
        more = 3;
        low = p[0] == 0xF0 ? 0x90 : low;
        high = p[0] == 0xF4 ? 0x8F : high;
    } else {
        return 0;
    }
    if (left <= more || p[1] < low || p[1] > high)
        return 0;
    for (i = 2; i <= more; i++)
        if (p[i] < 0x80 || p[i] > 0xBF)
            return 0;
    s->at += more + 1;
    return 1;
}

/* The four digits of \uXXXX, -1 where there are none. */
static long hex_of(const Scan *s, const unsigned char *at)
{
    long value = 0;
    int i;
    if (s->end - at < 4)
        return -1;
    for (i = 0; i < 4; i++) {
        unsigned char c = at[i], low = c | 0x20;
        if (c >= '0' && c <= '9')
            value = value * 16 + (c - '0');
        else if (low >= 'a' && low <= 'f')
            value = value * 16 + (low - 'a' + 10);
        else
            return -1;
    }
    return value;
}

/* After the backslash. Half of a surrogate pair is no character. */
static int scan_escape(Scan *s)
{
    long first, second;
    if (s->at == s->end)
        return 0;
    if (*s->at != 'u') {
        if (*s->at == 0 || strchr("\"\\/bfnrt", *s->at) == NULL)
            return 0;
        s->at++;
        return 1;
    }
    first = hex_of(s, s->at + 1);
    if (first < 0 || (first >= 0xDC00 && first <= 0xDFFF))
        return 0;
    s->at += 5;
    if (first < 0xD800 || first > 0xDBFF)
        return 1;
    if (!scan_word(s, "\\u", 2))
        return 0;
    second = hex_of(s, s->at);
    if (second < 0xDC00 || second > 0xDFFF)
        return 0;
    s->at += 4;
    return 1;
}

int scan_text(Scan *s, size_t *length)
{
    const unsigned char *begin = s->at;
    while (s->at < s->end) {
        unsigned char c = *s->at;
        if (c == '"') {
            *length = (size_t)(s->at - begin);
            s->at++;
            return 1;
        }
        if (c < 0x20)
            return 0;
        if (c < 0x80 && c != '\\') {
            s->at++;
        } else if (c == '\\') {
            s->at++;
            if (!scan_escape(s))
                return 0;
        } else if (!scan_character(s)) {
            return 0;
        }
    }
    return 0;
}

int scan_number(Scan *s, int digits, int64_t most, int64_t *value)
{
    const unsigned char *begin = s->at;
    int64_t sum = 0;
    while (s->at < s->end && *s->at >= '0' && *s->at <= '9') {
        if (s->at - begin == digits)
            return 0;
        sum = sum * 10 + (*s->at++ - '0');
    }
    if (s->at == begin || (*begin == '0' && s->at - begin > 1) || sum > most)
        return 0;
    *value = sum; /* a fraction or an exponent comes next: no comma, no end */
    return 1;
}

int scan_counts(Scan *s, int64_t *number)
{
    int64_t value;
    *number = 0;
    if (scan_mark(s, ']'))
        return 1;
    do {
        scan_space(s);
        if (!scan_number(s, COUNT_DIGITS, COUNT_MOST, &value))
            return 0;
        ++*number;
    } while (scan_mark(s, ','));
    return scan_mark(s, ']');
}
