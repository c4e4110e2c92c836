#include "common/base/str.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "common/base/error.h"

struct str str_of(const char *text)
{
    return (struct str){text, text ? strlen(text) : 0};
}

bool str_equal(struct str a, struct str b)
{
    return a.size == b.size && (a.size == 0 || memcmp(a.data, b.data, a.size) == 0);
}

static bool is_space(char c)
{
    return c == ' ' || c == '\t' || c == '\n' || c == '\r';
}

struct str str_trim(struct str s)
{
    while (s.size && is_space(s.data[0])) {
        s.data++;
        s.size--;
    }
    while (s.size && is_space(s.data[s.size - 1]))
        s.size--;
    return s;
}

bool str_next(struct str *rest, char separator, struct str *ret_part)
{
    if (rest->size == 0)
        return false;
    const char *cut = memchr(rest->data, separator, rest->size);
    size_t size = cut ? (size_t)(cut - rest->data) : rest->size;
    size_t skip = cut ? size + 1 : size;
    *ret_part = (struct str){rest->data, size};
    *rest = (struct str){rest->data + skip, rest->size - skip};
    return true;
}

const char *str_plural(int64_t count)
{
    return count == 1 ? "" : "s";
}

bool str_starts(const char *text, const char *prefix)
{
    return strncmp(text, prefix, strlen(prefix)) == 0;
}

bool str_ends(const char *text, const char *suffix)
{
    size_t length = strlen(text), tail = strlen(suffix);
    return length >= tail && memcmp(text + length - tail, suffix, tail) == 0;
}

int str_copy(char *ret, size_t size, const char *text)
{
    size_t length = strnlen(text, size);
    if (length < size) {
        memcpy(ret, text, length + 1);
        return 0;
    }
    size_t keep = size - 1;
    while (keep && ((unsigned char)text[keep] & 0xc0) == 0x80)
        keep--;
    memcpy(ret, text, keep);
    ret[keep] = '\0';
    return E_OUT_OF_RANGE;
}

int str_printf(char *ret, size_t size, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    int length = vsnprintf(ret, size, fmt, ap);
    va_end(ap);
    return length >= 0 && (size_t)length < size ? 0 : E_OUT_OF_RANGE;
}

static char lower(char c)
{
    return c >= 'A' && c <= 'Z' ? (char)(c - 'A' + 'a') : c;
}

/* Optimal string alignment distance (Damerau 1964, without edits inside a swap), three rows of the
 * table at a time. */
int str_distance(const char *a, const char *b, int limit)
{
    size_t a_length = strnlen(a, STR_DISTANCE_LENGTH_MAX + 1);
    size_t b_length = strnlen(b, STR_DISTANCE_LENGTH_MAX + 1);
    if (limit > STR_DISTANCE_MAX)
        limit = STR_DISTANCE_MAX;
    if (a_length > STR_DISTANCE_LENGTH_MAX || b_length > STR_DISTANCE_LENGTH_MAX)
        return limit + 1;
    int rows[3][STR_DISTANCE_LENGTH_MAX + 1];
    for (size_t j = 0; j <= b_length; j++)
        rows[0][j] = (int)j;
    for (size_t i = 1; i <= a_length; i++) {
        int *row = rows[i % 3];
        const int *above = rows[(i + 2) % 3];
        const int *two_above = rows[(i + 1) % 3];
        row[0] = (int)i;
        for (size_t j = 1; j <= b_length; j++) {
            bool same = lower(a[i - 1]) == lower(b[j - 1]);
            int best = above[j - 1] + !same;
            if (above[j] + 1 < best)
                best = above[j] + 1;
            if (row[j - 1] + 1 < best)
                best = row[j - 1] + 1;
            bool swapped = i > 1 && j > 1 && lower(a[i - 1]) == lower(b[j - 2]) &&
                           lower(a[i - 2]) == lower(b[j - 1]);
            if (swapped && two_above[j - 2] + 1 < best)
                best = two_above[j - 2] + 1;
            row[j] = best;
        }
    }
    int distance = rows[a_length % 3][b_length];
    return distance > limit ? limit + 1 : distance;
}

const char *str_nearest(const char *text, const char *const *names)
{
    size_t third = strlen(text) / 3;
    int allowed = third < 1 ? 1 : third > 3 ? 3 : (int)third;
    const char *nearest = NULL;
    for (; *names; names++) {
        int distance = str_distance(text, *names, allowed);
        if (distance <= allowed) {
            nearest = *names;
            allowed = distance - 1;
        }
    }
    return nearest;
}

size_t utf8_decode(const char *s, size_t size, uint32_t *ret_code_point)
{
    /* smallest code point of each length: anything below it is overlong */
    static const uint32_t smallest[5] = {0, 0, 0x80, 0x800, 0x10000};
    if (size == 0)
        return 0;
    const unsigned char *u = (const unsigned char *)s;
    size_t length = u[0] < 0x80         ? 1
                    : u[0] >> 5 == 0x06 ? 2
                    : u[0] >> 4 == 0x0e ? 3
                    : u[0] >> 3 == 0x1e ? 4
                                        : 0;
    if (length == 0 || length > size)
        return 0;
    uint32_t code_point = length == 1 ? u[0] : u[0] & (0x7fu >> length);
    for (size_t i = 1; i < length; i++) {
        if ((u[i] & 0xc0) != 0x80)
            return 0;
        code_point = code_point << 6 | (u[i] & 0x3fu);
    }
    if (code_point < smallest[length] || code_point > 0x10ffff ||
        (code_point >= 0xd800 && code_point < 0xe000))
        return 0;
    if (ret_code_point)
        *ret_code_point = code_point;
    return length;
}

size_t utf8_encode(uint32_t code_point, char ret[4])
{
    if (code_point > 0x10ffff || (code_point >= 0xd800 && code_point < 0xe000))
        return 0;
    if (code_point < 0x80) {
        ret[0] = (char)code_point;
        return 1;
    }
    size_t length = code_point < 0x800 ? 2 : code_point < 0x10000 ? 3 : 4;
    for (size_t i = length - 1; i > 0; i--) {
        ret[i] = (char)(0x80 | (code_point & 0x3f));
        code_point >>= 6;
    }
    ret[0] = (char)((0xf00u >> length & 0xf0) | code_point); /* 0xc0, 0xe0, 0xf0 */
    return length;
}

/* How many bytes of ASCII it begins with, in whole words. */
static size_t ascii_words(const char *s, size_t size)
{
    uint64_t word;
    size_t at = 0;
    for (; at + sizeof(word) <= size; at += sizeof(word)) {
        memcpy(&word, s + at, sizeof(word));
        if (word & UINT64_C(0x8080808080808080))
            break;
    }
    return at;
}

bool utf8_valid(const char *s, size_t size)
{
    size_t ascii = ascii_words(s, size);
    s += ascii;
    size -= ascii;
    while (size) {
        size_t length = utf8_decode(s, size, NULL);
        if (!length)
            return false;
        s += length;
        size -= length;
    }
    return true;
}

bool utf8_continues(char byte)
{
    return ((unsigned char)byte & 0xc0) == 0x80;
}

size_t utf8_columns(const char *s)
{
    size_t columns = 0;
    for (; *s; s++)
        if (!utf8_continues(*s))
            columns++;
    return columns;
}
