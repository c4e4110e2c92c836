/* The meaning of a spec as text: equal for specs that ask for the same. */
#include <stdlib.h>
#include <string.h>

#include "common/base/assert.h"
#include "common/base/buf.h"
#include "coordinator/model/spec_internal.h"

/* With its length, so that no text looks like the end of one and the beginning of the next. */
static void put_text(struct buf *out, const char *name, const char *text)
{
    (void)buf_printf(out, "%s %zu %s\n", name, text ? strlen(text) : 0, text ? text : "");
}

static void put_number(struct buf *out, const char *name, int64_t number)
{
    (void)buf_printf(out, "%s %lld\n", name, (long long)number);
}

static int by_key(const void *a, const void *b)
{
    const struct pair *x = a, *y = b;
    int order = strcmp(x->key, y->key);
    return order ? order : strcmp(x->value, y->value);
}

static void put_pairs(struct buf *out, const char *name, const struct pair *pairs, int count)
{
    struct pair *sorted = calloc((size_t)count + 1, sizeof(*sorted));
    insist(sorted);
    if (count > 0)
        memcpy(sorted, pairs, (size_t)count * sizeof(*sorted));
    qsort(sorted, (size_t)count, sizeof(*sorted), by_key);
    put_number(out, name, count);
    for (int i = 0; i < count; i++) {
        put_text(out, "key", sorted[i].key);
        put_text(out, "value", sorted[i].value);
    }
    free(sorted);
}

enum { RESTARTS_THEN = 5 };

/* A spec stored before this choice existed has no value: it means the default of that time. */
static bool stops_on_failure(const struct spec *spec, const struct spec_input *in)
{
    if (spec_given(in->on_failure))
        return spec->stop_on_failure;
    return spec->nodes_min == spec->nodes_max && !spec->checkpoint_dir[0] &&
           spec->restart_max == RESTARTS_THEN;
}

static void put_value(struct buf *out, const char *name, const struct spec_value *value)
{
    if (value->text) {
        put_text(out, name, value->text);
        return;
    }
    put_number(out, name, value->low);
    put_number(out, name, value->high);
}

static void put_words(struct buf *out, const char *name, const char *const *words, int count)
{
    put_number(out, name, count);
    for (int i = 0; i < count; i++)
        put_text(out, "word", words[i]);
}

void spec_meaning(const struct spec *spec, const struct spec_input *in, struct buf *out)
{
    struct spec_value values[JOB_FIELDS_COUNT];
    memcpy(values, spec->values, sizeof(values));
    values[JOB_FIELD_ON_FAILURE].low = stops_on_failure(spec, in);
    values[JOB_FIELD_ON_NO_PROGRESS].low = spec->stop_without_progress;
    values[JOB_FIELD_ELASTIC].low = spec->elastic; /* of a stored spec, its meaning as before */
#define PUT_TEXT(key, id, member)        put_value(out, key, &values[JOB_FIELD_##id]);
#define PUT_COUNT(key, id, member)       put_value(out, key, &values[JOB_FIELD_##id]);
#define PUT_NUMBER(key, id, member)      put_value(out, key, &values[JOB_FIELD_##id]);
#define PUT_RANGE(key, id, member)       put_value(out, key, &values[JOB_FIELD_##id]);
#define PUT_WORDS(key, id, member)       put_words(out, key, in->member, in->member##_count);
#define PUT_PAIRS(key, id, member)       put_pairs(out, key, in->member, in->member##_count);
#define PUT_SETTINGS(key, id, member)    put_pairs(out, key, in->member, in->member##_count);
#define PUT_SETTING(key, id, member)     /* is among the settings */
#define PUT(id, member, shape, key, ...) PUT_##shape(key, id, member)
    JOB_FIELDS(PUT, PUT)
}
