/* Strings: copies that notice truncation, comparison, splitting, nearest names, plurals, UTF-8.
 * Nothing here allocates. Any thread.
 */
#ifndef BASE_STR_H
#define BASE_STR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct str { /* a view: borrowed, not NUL-terminated */
    const char *data;
    size_t size;
};

struct str str_of(const char *text); /* an empty view of NULL */
bool str_equal(struct str a, struct str b);
struct str str_trim(struct str s); /* without spaces, tabs and line ends at both ends */

/* Cut the part before the first `separator` off `*rest`; false when nothing is left. "a,,b," has
 * the parts "a", "", "b"; an empty view has none. */
bool str_next(struct str *rest, char separator, struct str *ret_part);

/* The end of a noun of which there are `count`: "" of one, else "s". */
const char *str_plural(int64_t count);

bool str_starts(const char *text, const char *prefix);
bool str_ends(const char *text, const char *suffix);

/* Copy with its NUL. E_OUT_OF_RANGE if it does not fit: then `ret` has as much as fits, cut at a
 * UTF-8 boundary. `size` > 0. */
int str_copy(char *ret, size_t size, const char *text);

/* snprintf that reports truncation as E_OUT_OF_RANGE. */
int str_printf(char *ret, size_t size, const char *fmt, ...) __attribute__((format(printf, 3, 4)));

/* Edits (insert, delete, replace, swap neighbours) between two names, letters compared without
 * case; `limit` + 1 when more than `limit` (at most STR_DISTANCE_MAX). */
enum { STR_DISTANCE_MAX = 16, STR_DISTANCE_LENGTH_MAX = 63 };
int str_distance(const char *a, const char *b, int limit);

/* The name nearest to `text` within a third of its length (at least 1, at most 3 edits); first of
 * equals; NULL if none. `names` is NULL-terminated. */
const char *str_nearest(const char *text, const char *const *names);

/* Bytes of the valid UTF-8 sequence at the start of s[0..size), 0 if it is not one (overlong,
 * surrogate, beyond U+10FFFF, cut short). Writes the code point if wanted. */
size_t utf8_decode(const char *s, size_t size, uint32_t *ret_code_point);
size_t utf8_encode(uint32_t code_point, char ret[4]); /* 0 if it is not a scalar value */
bool utf8_valid(const char *s, size_t size);
bool utf8_continues(char byte);     /* not the first byte of its sequence */
size_t utf8_columns(const char *s); /* code points: what a terminal needs to align columns */

#endif
