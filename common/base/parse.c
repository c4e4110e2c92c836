#include "common/base/parse.h"

#include <inttypes.h>
#include <locale.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

int parse_i64(const char *text, int64_t min, int64_t max, int64_t *ret, struct error *err)
{
    const char *p = text + (*text == '-' || *text == '+');
    bool negative = *text == '-';
    if (!is_digit(*p))
        return error_set(err, E_INVALID_ARGUMENT, "'%.40s' is not a whole number", text);
    int64_t value = 0;
    bool overflow = false;
    for (; is_digit(*p); p++) {
        int64_t digit = *p - '0';
        overflow |= __builtin_mul_overflow(value, 10, &value);
        overflow |= __builtin_add_overflow(value, negative ? -digit : digit, &value);
    }
    if (*p)
        return error_set(err, E_INVALID_ARGUMENT, "'%.40s' is not a whole number", text);
    bool outside = overflow || value < min || value > max;
    if (outside && max == INT64_MAX && !(overflow && !negative))
        return error_set(err, E_OUT_OF_RANGE, "%.40s is below %" PRId64, text, min);
    if (outside)
        return error_set(err, E_OUT_OF_RANGE, "%.40s is not in %" PRId64 "..%" PRId64, text, min,
                         max);
    *ret = value;
    return 0;
}

/* Length of the decimal number at the start of `text`, 0 if there is none: strtod alone would also
 * accept hexadecimal, "inf" and leading spaces. */
static size_t decimal_length(const char *text)
{
    const char *p = text + (*text == '-' || *text == '+');
    const char *digits = p;
    while (is_digit(*p))
        p++;
    size_t count = (size_t)(p - digits);
    if (*p == '.') {
        const char *fraction = ++p;
        while (is_digit(*p))
            p++;
        count += (size_t)(p - fraction);
    }
    if (count == 0)
        return 0;
    if (*p == 'e' || *p == 'E') {
        const char *exponent = p + 1 + (p[1] == '-' || p[1] == '+');
        if (is_digit(*exponent)) {
            while (is_digit(*exponent))
                exponent++;
            p = exponent;
        }
    }
    return (size_t)(p - text);
}

/* strtod in the C locale, whatever the program's is: a decimal comma would cut "1.5" to 1. */
static double strtod_c(const char *text, char **end)
{
    locale_t c = newlocale(LC_NUMERIC_MASK, "C", (locale_t)0);
    if (c == (locale_t)0)
        return strtod(text, end);
    double value = strtod_l(text, end, c);
    freelocale(c);
    return value;
}

int parse_range(const char *text, int64_t min, int64_t max, int64_t *ret_low, int64_t *ret_high,
                struct error *err)
{
    char low[32];
    int64_t from, to;
    size_t size = strcspn(text, ".-");
    const char *rest = text + size;
    if (size >= sizeof(low))
        return error_set(err, E_INVALID_ARGUMENT, "\"%.40s\" is no range", text);
    memcpy(low, text, size);
    low[size] = '\0';
    int rc = parse_i64(low, min, max, &from, err);
    if (rc)
        return rc;
    to = from;
    if (*rest) {
        size_t between = strncmp(rest, "..", 2) == 0 ? 2 : 1;
        if (*rest == '.' && between == 1)
            return error_set(err, E_INVALID_ARGUMENT, "\"%.40s\" is no range", text);
        rc = parse_i64(rest + between, from, max, &to, err);
    }
    if (!rc) {
        *ret_low = from;
        *ret_high = to;
    }
    return rc;
}

int number_within(const char *name, int64_t value, int64_t min, int64_t max, struct error *err)
{
    if (value >= min && value <= max)
        return 0;
    return error_set(err, E_INVALID_ARGUMENT, "%s is %" PRId64 ", outside %" PRId64 " to %" PRId64,
                     name, value, min, max);
}

int parse_f64(const char *text, double *ret, struct error *err)
{
    size_t length = decimal_length(text);
    if (length == 0 || text[length])
        return error_set(err, E_INVALID_ARGUMENT, "'%.40s' is not a number", text);
    double value = strtod_c(text, NULL);
    if (!isfinite(value))
        return error_set(err, E_OUT_OF_RANGE, "%.40s is too large for a number", text);
    *ret = value;
    return 0;
}

int parse_bool(const char *text, bool *ret, struct error *err)
{
    static const char *const words[2][4] = {
        {"false", "no", "off", "0"},
        {"true", "yes", "on", "1"},
    };
    for (int value = 0; value < 2; value++) {
        for (int i = 0; i < 4; i++) {
            if (strcasecmp(text, words[value][i]) == 0) {
                *ret = value != 0;
                return 0;
            }
        }
    }
    return error_set(err, E_INVALID_ARGUMENT, "'%.40s' is neither true nor false", text);
}

struct unit {
    const char *name;
    uint64_t factor;
};

/* The unit named by letters at `*text`, which is moved past it. */
static const struct unit *take_unit(const char **text, const struct unit *units)
{
    size_t length = 0;
    while ((*text)[length] >= 'A' && !is_digit((*text)[length]))
        length++;
    for (; units->name; units++) {
        if (strlen(units->name) == length && strncasecmp(units->name, *text, length) == 0) {
            *text += length;
            return units;
        }
    }
    return NULL;
}

/* One "1.5h" at `*text`. A number without fraction is counted exactly. */
static int take_quantity(const char **text, const struct unit *units, uint64_t *ret)
{
    char number[32];
    size_t length = strspn(*text, "0123456789.");
    if (length == 0 || length >= sizeof(number) || !is_digit(**text))
        return E_INVALID_ARGUMENT;
    memcpy(number, *text, length);
    number[length] = '\0';
    *text += length;
    const struct unit *unit = take_unit(text, units);
    if (!unit)
        return E_INVALID_ARGUMENT;
    int64_t whole;
    double value;
    if (!strchr(number, '.')) {
        if (parse_i64(number, 0, INT64_MAX, &whole, NULL) ||
            __builtin_mul_overflow((uint64_t)whole, unit->factor, ret))
            return E_OUT_OF_RANGE;
        return 0;
    }
    if (parse_f64(number, &value, NULL))
        return E_INVALID_ARGUMENT;
    value = round(value * (double)unit->factor);
    if (value >= 0x1p63)
        return E_OUT_OF_RANGE;
    *ret = (uint64_t)value;
    return 0;
}

static const struct unit time_units[] = {{"d", 86400000}, {"h", 3600000}, {"m", 60000},
                                         {"s", 1000},     {"ms", 1},      {NULL, 0}};

int parse_duration(const char *text, int64_t *ret_ms, struct error *err)
{
    uint64_t total = 0, last_factor = UINT64_MAX;
    const char *p = text;
    if (strcmp(text, "0") == 0) {
        *ret_ms = 0;
        return 0;
    }
    int rc = *p ? 0 : E_INVALID_ARGUMENT;
    while (!rc && *p) {
        uint64_t part = 0;
        const char *unit_at = p + strspn(p, "0123456789.");
        const struct unit *unit = take_unit(&unit_at, time_units);
        if (!unit || unit->factor >= last_factor) { /* "5m2h" is a slip, not a duration */
            rc = E_INVALID_ARGUMENT;
            break;
        }
        last_factor = unit->factor;
        rc = take_quantity(&p, time_units, &part);
        if (!rc && (__builtin_add_overflow(total, part, &total) || total > INT64_MAX))
            rc = E_OUT_OF_RANGE;
    }
    if (rc == E_OUT_OF_RANGE)
        return error_set(err, rc, "%.40s is too long", text);
    if (rc)
        return error_set(err, rc, "'%.40s' is not a duration such as 500ms, 30s, 5m, 2h or 1d",
                         text);
    *ret_ms = (int64_t)total;
    return 0;
}

static const struct unit byte_units[] = {
    {"", 1},
    {"B", 1},
    {"KiB", 1ull << 10},
    {"MiB", 1ull << 20},
    {"GiB", 1ull << 30},
    {"TiB", 1ull << 40},
    {"PiB", 1ull << 50},
    {"K", 1ull << 10},
    {"M", 1ull << 20},
    {"G", 1ull << 30},
    {"T", 1ull << 40},
    {"P", 1ull << 50},
    {"Ki", 1ull << 10},
    {"Mi", 1ull << 20},
    {"Gi", 1ull << 30},
    {"Ti", 1ull << 40},
    {"Pi", 1ull << 50},
    {"KB", 1000},
    {"MB", 1000000},
    {"GB", 1000000000},
    {"TB", 1000000000000},
    {"PB", 1000000000000000},
    {NULL, 0},
};

int parse_bytes(const char *text, uint64_t *ret_bytes, struct error *err)
{
    uint64_t value = 0;
    const char *p = text;
    int rc = take_quantity(&p, byte_units, &value);
    if (!rc && *p)
        rc = E_INVALID_ARGUMENT;
    if (!rc && value > INT64_MAX)
        rc = E_OUT_OF_RANGE;
    if (rc == E_OUT_OF_RANGE)
        return error_set(err, rc, "%.40s is too large", text);
    if (rc)
        return error_set(err, rc, "'%.40s' is not a size such as 4096, 512MiB or 2GiB", text);
    *ret_bytes = value;
    return 0;
}
