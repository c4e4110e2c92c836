/* Short forms of a job's file, and the defaults of the table of fields. */
#include <inttypes.h>
#include <string.h>

#include "common/base/parse.h"
#include "common/base/str.h"
#include "common/base/tree_build.h"
#include "common/rpc/fields.h"
#include "common/rpc/spec.h"
#include "common/rpc/training.h"
#include "common/rpc/widen.h"
#include "common/settings/job_field.h"

enum { NUMBER_TEXT_MAX = 48, SECTION_MAX = 32 };

/* A field of `map` under either of its spellings; NULL if absent or null. */
static struct tree *child_of(const struct tree *map, const ProtobufCMessageDescriptor *type,
                             const char *name)
{
    struct tree *child;
    tree_each(child, map) {
        const ProtobufCFieldDescriptor *field = field_find(type, child->key);
        if (field && strcmp(field->name, name) == 0)
            return child->kind == TREE_NULL ? NULL : child;
    }
    return NULL;
}

/* On the wire 0 means "absent", and becomes the default: an explicit 0 means something else. */
static int refuse_zero(const struct widen *w, const struct tree *map,
                       const ProtobufCMessageDescriptor *type, const char *name)
{
    const struct tree *node = child_of(map, type, name);
    bool zero = node && ((node->kind == TREE_INTEGER && node->integer == 0) ||
                         (node->kind == TREE_NUMBER && node->number == 0));
    return zero ? tree_fail(node, w->err, "%s must be more than 0; left out it is 1", name) : 0;
}

/* An integer becomes text with its unit: 90 is "90s", 200 is "200 steps". */
static int put_unit(const struct widen *w, struct tree *map, const ProtobufCMessageDescriptor *type,
                    const char *name, const char *unit)
{
    struct tree *node = child_of(map, type, name);
    if (!node || node->kind != TREE_INTEGER)
        return 0;
    char text[NUMBER_TEXT_MAX];
    str_printf(text, sizeof(text), "%" PRId64 "%s", node->integer, unit);
    return widen_put(w, map, node->key, tree_string(w->arena, text), node);
}

/* The map under `name`: as given, made of a short form in `into`, or new. NULL without memory. */
static struct tree *map_at(const struct widen *w, struct tree *spec, const char *name,
                           const char *into, struct tree *short_form)
{
    struct tree *node = child_of(spec, &muster__job_spec__descriptor, name);
    if (node && !short_form)
        return node;
    struct tree *map = tree_map(w->arena);
    if (widen_put(w, spec, node ? node->key : name, map, node ? node : spec))
        return NULL;
    if (short_form && widen_put(w, map, into, short_form, map))
        return NULL;
    return map;
}

static int put_range(const struct widen *w, struct tree *spec, struct tree *node, int64_t min,
                     int64_t max)
{
    struct tree *range = tree_map(w->arena);
    int rc = widen_put(w, spec, node ? node->key : "nodes", range, node ? node : spec);
    if (!rc)
        rc = widen_put(w, range, "min", tree_integer(w->arena, min), range);
    if (!rc)
        rc = widen_put(w, range, "max", tree_integer(w->arena, max), range);
    return rc;
}

static int range_of_text(const struct widen *w, struct tree *spec, struct tree *node)
{
    int64_t min, max;
    if (parse_range(node->string, 1, UINT32_MAX, &min, &max, NULL))
        return tree_fail(node, w->err,
                         "expected a number of nodes, MIN..MAX or {min, max}, found \"%.60s\"",
                         node->string);
    return put_range(w, spec, node, min, max);
}

static int widen_nodes(const struct widen *w, struct tree *spec)
{
    const ProtobufCMessageDescriptor *type = &muster__job_spec__range__descriptor;
    struct tree *node = child_of(spec, &muster__job_spec__descriptor, "nodes");
    if (!node)
        return put_range(w, spec, NULL, 1, 1);
    if (refuse_zero(w, spec, &muster__job_spec__descriptor, "nodes"))
        return E_INVALID_ARGUMENT;
    if (node->kind == TREE_INTEGER)
        return put_range(w, spec, node, node->integer, node->integer);
    if (node->kind == TREE_STRING)
        return range_of_text(w, spec, node);
    if (node->kind != TREE_MAP)
        return 0; /* transcoding reports the error */
    struct tree *min = child_of(node, type, "min"), *max = child_of(node, type, "max");
    int rc = refuse_zero(w, node, type, "min");
    if (!rc)
        rc = refuse_zero(w, node, type, "max");
    if (!rc && !min)
        rc = widen_put(w, node, "min", tree_integer(w->arena, 1), node);
    if (!rc && !max)
        rc = widen_put(w, node, "max",
                       tree_integer(w->arena, min && min->kind == TREE_INTEGER ? min->integer : 1),
                       node);
    if (!rc && min && max && min->kind == TREE_INTEGER && max->kind == TREE_INTEGER &&
        min->integer > max->integer)
        rc = tree_fail(max, w->err, "max (%" PRId64 ") is below min (%" PRId64 ")", max->integer,
                       min->integer);
    return rc;
}

static int widen_command(const struct widen *w, struct tree *spec)
{
    struct tree *node = child_of(spec, &muster__job_spec__descriptor, "command");
    if (!node || node->kind != TREE_STRING)
        return 0;
    struct tree *argv = tree_list(w->arena);
    if (tree_list_add(argv, tree_string(w->arena, "/bin/sh")) ||
        tree_list_add(argv, tree_string(w->arena, "-c")) ||
        tree_list_add(argv, tree_string(w->arena, node->string)))
        return widen_no_memory(w);
    return widen_put(w, spec, node->key, argv, node);
}

static bool is_off(const struct tree *node)
{
    return (node->kind == TREE_BOOL && !node->boolean) ||
           (node->kind == TREE_STRING && strcmp(node->string, "off") == 0);
}

/* It sets how often, or how, the job is restarted. */
static bool asks_for_restarts(const struct tree *node)
{
    const ProtobufCMessageDescriptor *type = &muster__job_spec__restart__descriptor;
    if (!node || is_off(node))
        return false;
    if (node->kind != TREE_MAP)
        return node->kind == TREE_INTEGER && node->integer > 0;
    const struct tree *max = child_of(node, type, "max");
    if (max)
        return max->kind != TREE_INTEGER || max->integer > 0;
    return child_of(node, type, "backoff") || child_of(node, type, "on_no_progress");
}

/* A program that failed by itself would usually fail again. A job is retried only if it continues
 * from a checkpoint or asks for it (docs/adr/0010). */
static const char *default_on_failure(const struct tree *spec, bool asked)
{
    const ProtobufCMessageDescriptor *type = &muster__job_spec__descriptor,
                                     *range = &muster__job_spec__range__descriptor;
    const struct tree *nodes = child_of(spec, type, "nodes");
    bool both = nodes && nodes->kind == TREE_MAP;
    const struct tree *min = both ? child_of(nodes, range, "min") : NULL;
    const struct tree *max = both ? child_of(nodes, range, "max") : NULL;
    bool elastic = min && max && min->kind == TREE_INTEGER && max->kind == TREE_INTEGER &&
                   min->integer < max->integer;
    return asked || elastic || child_of(spec, type, "checkpoint") ? "retry" : "stop";
}

/* `restart: 3` and `restart: off` are {max: 3} and {max: 0}. Two defaults of the section depend on
 * other keys of the job. */
static int widen_restart(const struct widen *w, struct tree *spec)
{
    const ProtobufCMessageDescriptor *type = &muster__job_spec__restart__descriptor;
    struct tree *node = child_of(spec, &muster__job_spec__descriptor, "restart");
    struct tree *max = NULL;
    const char *on_failure = default_on_failure(spec, asks_for_restarts(node));
    if (node && (node->kind == TREE_INTEGER || is_off(node)))
        max = tree_integer(w->arena, node->kind == TREE_INTEGER ? node->integer : 0);
    else if (node && node->kind != TREE_MAP)
        return tree_fail(node, w->err,
                         "expected a number of restarts, off or {max, backoff, on_failure, "
                         "on_no_progress}");
    struct tree *map = map_at(w, spec, "restart", "max", max);
    if (!map)
        return widen_no_memory(w);
    const struct tree *said = child_of(map, type, "max");
    bool wanted = said && !(said->kind == TREE_INTEGER && said->integer == 0);
    int rc = 0;
    if (!child_of(map, type, "on_no_progress")) /* with max: this many, whatever the failure */
        rc = widen_put(w, map, "on_no_progress", tree_string(w->arena, wanted ? "retry" : "stop"),
                       map);
    if (!rc && !child_of(map, type, "on_failure"))
        rc = widen_put(w, map, "on_failure", tree_string(w->arena, on_failure), map);
    return rc;
}

/* `elastic: false` is off. */
static int widen_elastic(const struct widen *w, struct tree *spec)
{
    struct tree *node = child_of(spec, &muster__job_spec__descriptor, "elastic");
    if (!node || node->kind != TREE_BOOL)
        return 0;
    return widen_put(w, spec, node->key, tree_string(w->arena, node->boolean ? "in_place" : "off"),
                     node);
}

/* `checkpoint: /dir` is {dir: /dir}. */
static int widen_checkpoint(const struct widen *w, struct tree *spec)
{
    struct tree *node = child_of(spec, &muster__job_spec__descriptor, "checkpoint");
    if (!node || node->kind != TREE_STRING)
        return 0;
    return map_at(w, spec, "checkpoint", "dir", tree_string(w->arena, node->string))
               ? 0
               : widen_no_memory(w);
}

/* A section is made for its defaults if its first row has one: `resources`, not `checkpoint`. */
static bool section_has_defaults(const char *section)
{
    for (int i = 0; i < JOB_FIELDS_COUNT; i++) {
        const char *key = job_fields[i].key;
        size_t size = job_field_section(key);
        if (size == strlen(section) && memcmp(key, section, size) == 0)
            return job_fields[i].fallback;
    }
    return false;
}

static struct tree *default_of(const struct widen *w, const struct job_field *row)
{
    int64_t number;
    if (row->shape == SHAPE_TEXT)
        return tree_string(w->arena, row->fallback);
    (void)parse_i64(row->fallback, 0, INT64_MAX, &number, NULL);
    return tree_integer(w->arena, number);
}

/* One value in `map`: its unit, its default. */
static int widen_value(const struct widen *w, const struct job_field *row, const char *name,
                       struct tree *map, const ProtobufCMessageDescriptor *type)
{
    bool above_zero = row->shape == SHAPE_NUMBER || (row->shape == SHAPE_COUNT && row->min > 0);
    int rc = above_zero ? refuse_zero(w, map, type, name) : 0;
    if (!rc && row->shape == SHAPE_TEXT && row->form == FORM_TIME)
        rc = put_unit(w, map, type, name, "s");
    if (!rc && row->shape == SHAPE_TEXT && row->form == FORM_INTERVAL)
        rc = put_unit(w, map, type, name, " steps");
    if (!rc && row->fallback && !child_of(map, type, name))
        rc = widen_put(w, map, name, default_of(w, row), map);
    return rc;
}

static int widen_field(const struct widen *w, const struct job_field *row, struct tree *spec)
{
    const ProtobufCMessageDescriptor *type = &muster__job_spec__descriptor;
    size_t size = job_field_section(row->key);
    char section[SECTION_MAX];
    if (row->shape == SHAPE_RANGE || row->shape == SHAPE_SETTING) /* widened as a whole */
        return 0;
    if (size == 0)
        return widen_value(w, row, row->key, spec, type);
    (void)str_printf(section, sizeof(section), "%.*s", (int)size, row->key);
    struct tree *map = child_of(spec, type, section);
    if (!map && !section_has_defaults(section))
        return 0;
    if (!map && !(map = map_at(w, spec, section, NULL, NULL)))
        return widen_no_memory(w);
    const ProtobufCFieldDescriptor *field = field_find(type, section);
    if (map->kind != TREE_MAP || !field || field->type != PROTOBUF_C_TYPE_MESSAGE)
        return 0; /* transcoding reports the error */
    return widen_value(w, row, row->key + size + 1, map, field->descriptor);
}

int spec_widen(struct arena *arena, struct tree *spec, struct error *err)
{
    struct widen w = {arena, err, NULL};
    if (spec->kind == TREE_NULL)
        return error_set(err, E_INVALID_ARGUMENT, "it is empty: a job spec has at least a command");
    if (spec->kind != TREE_MAP)
        return tree_fail(spec, err, "a job spec is a map of settings, this is %s",
                         tree_kind_name(spec->kind));
    int rc = widen_nodes(&w, spec);
    if (!rc)
        rc = widen_command(&w, spec);
    if (!rc)
        rc = widen_restart(&w, spec);
    if (!rc)
        rc = widen_elastic(&w, spec);
    if (!rc)
        rc = training_widen(arena, spec, err);
    if (!rc)
        rc = widen_checkpoint(&w, spec);
    for (int i = 0; i < JOB_FIELDS_COUNT && !rc; i++)
        rc = widen_field(&w, &job_fields[i], spec);
    return rc;
}
