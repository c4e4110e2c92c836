#include "common/settings/way.h"

#include <stdbool.h>
#include <string.h>

#include "common/base/parse.h"

static const char *const names[] = {
#define X(name, text) text,
    WAY_LIST(X)
#undef X
};

const char *way_name(enum way way)
{
    return names[way];
}

/* "sliced:1M" */
static int parse_step(char *word, struct way_step *ret, struct error *err)
{
    char *limit = strchr(word, ':');
    uint64_t bytes = WAY_NO_LIMIT;
    int way = 0;
    if (limit)
        *limit++ = '\0';
    while (way < WAYS && strcmp(names[way], word) != 0)
        way++;
    if (way == WAYS)
        return error_set(err, E_INVALID_ARGUMENT,
                         "'%s' is no way: direct, sliced, chain or two_levels", word);
    if (limit && parse_bytes(limit, &bytes, err))
        return error_set(err, E_INVALID_ARGUMENT, "way '%s': '%s' is no number of bytes", word,
                         limit);
    *ret = (struct way_step){(enum way)way, bytes};
    return 0;
}

static int check_order(const struct way_step *steps, int n, struct error *err)
{
    for (int i = 0; i < n; i++) {
        size_t up_to = steps[i].up_to_bytes;
        const char *name = names[steps[i].way];
        if (i == n - 1 && up_to != WAY_NO_LIMIT)
            return error_set(err, E_INVALID_ARGUMENT, "way '%s' is the last and has no limit",
                             name);
        if (i < n - 1 && up_to == WAY_NO_LIMIT)
            return error_set(err, E_INVALID_ARGUMENT, "way '%s' needs a limit, \"%s:BYTES\"", name,
                             name);
        if (i > 0 && up_to <= steps[i - 1].up_to_bytes)
            return error_set(err, E_INVALID_ARGUMENT, "way '%s': limits must rise", name);
        if (steps[i].way == WAY_DIRECT && up_to > WAY_DIRECT_BYTES_MAX)
            return error_set(err, E_INVALID_ARGUMENT, "way 'direct' goes up to %d bytes",
                             (int)WAY_DIRECT_BYTES_MAX);
    }
    return n > 0 ? 0 : error_set(err, E_INVALID_ARGUMENT, "a list of ways without a way");
}

int way_steps_parse(const char *text, struct way_step ret[WAY_STEPS_MAX - 1], int *ret_count,
                    struct error *err)
{
    char words[WAYS_TEXT_BYTES], *at = words;
    int n = 0;
    if (strlen(text) >= sizeof(words))
        return error_set(err, E_INVALID_ARGUMENT, "a list of ways has less than %d characters",
                         (int)WAYS_TEXT_BYTES);
    memcpy(words, text, strlen(text) + 1);
    for (at += strspn(at, " "); *at; at += strspn(at, " ")) {
        size_t length = strcspn(at, " ");
        bool more = at[length] != '\0';
        at[length] = '\0';
        if (n == WAY_STEPS_MAX - 1)
            return error_set(err, E_INVALID_ARGUMENT, "more than %d ways", WAY_STEPS_MAX - 1);
        int rc = parse_step(at, &ret[n++], err);
        if (rc)
            return rc;
        at += length + more;
    }
    int rc = check_order(ret, n, err);
    if (!rc)
        *ret_count = n;
    return rc;
}
