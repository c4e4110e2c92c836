#include "common/base/limits.h"

static const struct {
    int number;
    const char *name, *words, *hint;
} rows[LIMIT_COUNT] = {
#define X(upper, number, name, words, hint) {number, #name, words, hint},
    LIMITS(X)
#undef X
};

int limit_number(enum limit limit)
{
    return rows[limit].number;
}

const char *limit_name(enum limit limit)
{
    return rows[limit].name;
}

const char *limit_words(enum limit limit)
{
    return rows[limit].words;
}

int limit_refuse(enum limit limit, struct error *err)
{
    error_set(err, E_RESOURCE_EXHAUSTED, "limit %s: %s are at most %d", rows[limit].name,
              rows[limit].words, rows[limit].number);
    error_hint(err, "%s", rows[limit].hint);
    return E_RESOURCE_EXHAUSTED;
}
