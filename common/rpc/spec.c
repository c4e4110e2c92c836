#include "common/rpc/spec.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/parse.h"
#include "common/base/str.h"
#include "common/rpc/fields.h"
#include "common/rpc/message.h"
#include "common/rpc/training.h"
#include "common/rpc/transcode.h"
#include "common/rpc/widen.h"

enum { NUMBER_TEXT_MAX = 48 };

#define DEFAULT_RESTARTS   5
#define DEFAULT_BACKOFF    "1s..1m"
#define DEFAULT_CKPT_EVERY "200 steps"
#define DEFAULT_CKPT_KEEP  3

/* A field of `map` under either of its spellings; NULL if absent or null. */
static struct tree *get(const struct tree *map, const ProtobufCMessageDescriptor *type,
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

static int put_default(const struct widen *w, struct tree *map,
                       const ProtobufCMessageDescriptor *type, const char *name, struct tree *value)
{
    return get(map, type, name) ? 0 : widen_put(w, map, name, value, map);
}

/* On the wire 0 means "absent", and becomes 1: an explicit 0 means something else. */
static int refuse_zero(const struct widen *w, const struct tree *map,
                       const ProtobufCMessageDescriptor *type, const char *name)
{
    const struct tree *node = get(map, type, name);
    bool zero = node && ((node->kind == TREE_INTEGER && node->integer == 0) ||
                         (node->kind == TREE_NUMBER && node->number == 0));
    return zero ? tree_fail(node, w->err, "%s must be more than 0; left out it is 1", name) : 0;
}

/* An integer becomes text with its unit: 90 is "90s", 200 is "200 steps". */
static int put_unit(const struct widen *w, struct tree *map, const ProtobufCMessageDescriptor *type,
                    const char *name, const char *unit)
{
    struct tree *node = get(map, type, name);
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
    struct tree *node = get(spec, &muster__job_spec__descriptor, name);
    if (node && !short_form)
        return node;
    struct tree *map = tree_map(w->arena);
    if (widen_put(w, spec, node ? node->key : name, map, node ? node : spec) != 0)
        return NULL;
    if (short_form && widen_put(w, map, into, short_form, map) != 0)
        return NULL;
    return map;
}

static int put_range(const struct widen *w, struct tree *spec, struct tree *node, int64_t min,
                     int64_t max)
{
    struct tree *range = tree_map(w->arena);
    int rc = widen_put(w, spec, node ? node->key : "nodes", range, node ? node : spec);
    if (rc == 0)
        rc = widen_put(w, range, "min", tree_integer(w->arena, min), range);
    if (rc == 0)
        rc = widen_put(w, range, "max", tree_integer(w->arena, max), range);
    return rc;
}

static int range_of_text(const struct widen *w, struct tree *spec, struct tree *node)
{
    int64_t min, max;
    if (parse_range(node->string, 1, UINT32_MAX, &min, &max, NULL) != 0)
        return tree_fail(node, w->err,
                         "expected a number of nodes, MIN..MAX or {min, max}, found \"%.60s\"",
                         node->string);
    return put_range(w, spec, node, min, max);
}

static int widen_nodes(const struct widen *w, struct tree *spec)
{
    const ProtobufCMessageDescriptor *type = &muster__job_spec__range__descriptor;
    struct tree *node = get(spec, &muster__job_spec__descriptor, "nodes");
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
    struct tree *min = get(node, type, "min"), *max = get(node, type, "max");
    int rc = refuse_zero(w, node, type, "min");
    if (rc == 0)
        rc = refuse_zero(w, node, type, "max");
    if (rc == 0 && !min)
        rc = widen_put(w, node, "min", tree_integer(w->arena, 1), node);
    if (rc == 0 && !max)
        rc = widen_put(w, node, "max",
                       tree_integer(w->arena, min && min->kind == TREE_INTEGER ? min->integer : 1),
                       node);
    if (rc == 0 && min && max && min->kind == TREE_INTEGER && max->kind == TREE_INTEGER &&
        min->integer > max->integer)
        rc = tree_fail(max, w->err, "max (%" PRId64 ") is below min (%" PRId64 ")", max->integer,
                       min->integer);
    return rc;
}

static int widen_command(const struct widen *w, struct tree *spec)
{
    struct tree *node = get(spec, &muster__job_spec__descriptor, "command");
    if (!node || node->kind != TREE_STRING)
        return 0;
    struct tree *argv = tree_list(w->arena);
    if (tree_list_add(argv, tree_string(w->arena, "/bin/sh")) != 0 ||
        tree_list_add(argv, tree_string(w->arena, "-c")) != 0 ||
        tree_list_add(argv, tree_string(w->arena, node->string)) != 0)
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
    const struct tree *max = get(node, type, "max");
    if (max)
        return max->kind != TREE_INTEGER || max->integer > 0;
    return get(node, type, "backoff") || get(node, type, "on_no_progress");
}

/* A program that failed by itself would usually fail again. Only a job that continues from a
 * checkpoint, or whose submitter asks for it, is retried (docs/adr/0010). */
static const char *default_on_failure(const struct tree *spec, bool asked)
{
    const ProtobufCMessageDescriptor *type = &muster__job_spec__descriptor,
                                     *range = &muster__job_spec__range__descriptor;
    const struct tree *nodes = get(spec, type, "nodes");
    bool both = nodes && nodes->kind == TREE_MAP;
    const struct tree *min = both ? get(nodes, range, "min") : NULL;
    const struct tree *max = both ? get(nodes, range, "max") : NULL;
    bool elastic = min && max && min->kind == TREE_INTEGER && max->kind == TREE_INTEGER &&
                   min->integer < max->integer;
    return asked || elastic || get(spec, type, "checkpoint") ? "retry" : "stop";
}

static int widen_restart(const struct widen *w, struct tree *spec)
{
    const ProtobufCMessageDescriptor *type = &muster__job_spec__restart__descriptor;
    struct tree *node = get(spec, &muster__job_spec__descriptor, "restart");
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
    const struct tree *said = get(map, type, "max"); /* this many restarts, whatever the failure */
    bool wanted = said && !(said->kind == TREE_INTEGER && said->integer == 0);
    int rc = put_default(w, map, type, "max", tree_integer(w->arena, DEFAULT_RESTARTS));
    if (rc == 0)
        rc = put_default(w, map, type, "backoff", tree_string(w->arena, DEFAULT_BACKOFF));
    if (rc == 0)
        rc = put_default(w, map, type, "on_no_progress",
                         tree_string(w->arena, wanted ? "retry" : "stop"));
    if (rc == 0)
        rc = put_default(w, map, type, "on_failure", tree_string(w->arena, on_failure));
    return rc;
}

static int widen_elastic(const struct widen *w, struct tree *spec)
{
    struct tree *node = get(spec, &muster__job_spec__descriptor, "elastic");
    if (node && node->kind == TREE_BOOL)
        return widen_put(w, spec, node->key,
                         tree_string(w->arena, node->boolean ? "in_place" : "off"), node);
    return put_default(w, spec, &muster__job_spec__descriptor, "elastic",
                       tree_string(w->arena, "in_place"));
}

static int widen_resources(const struct widen *w, struct tree *spec)
{
    const ProtobufCMessageDescriptor *type = &muster__job_spec__resources__descriptor;
    struct tree *map = map_at(w, spec, "resources", NULL, NULL);
    if (!map)
        return widen_no_memory(w);
    if (map->kind != TREE_MAP)
        return 0;
    int rc = refuse_zero(w, map, type, "slots");
    if (rc == 0)
        rc = refuse_zero(w, map, type, "cpus");
    if (rc == 0)
        rc = put_default(w, map, type, "slots", tree_integer(w->arena, 1));
    if (rc == 0)
        rc = put_default(w, map, type, "cpus", tree_integer(w->arena, 1));
    return rc;
}

static int widen_checkpoint(const struct widen *w, struct tree *spec)
{
    const ProtobufCMessageDescriptor *type = &muster__job_spec__checkpoint__descriptor;
    struct tree *node = get(spec, &muster__job_spec__descriptor, "checkpoint");
    if (!node)
        return 0;
    struct tree *dir = node->kind == TREE_STRING ? tree_string(w->arena, node->string) : NULL;
    struct tree *map = map_at(w, spec, "checkpoint", "dir", dir);
    if (!map)
        return widen_no_memory(w);
    if (map->kind != TREE_MAP)
        return 0;
    int rc = put_unit(w, map, type, "every", " steps");
    if (rc == 0)
        rc = put_default(w, map, type, "every", tree_string(w->arena, DEFAULT_CKPT_EVERY));
    if (rc == 0)
        rc = put_default(w, map, type, "keep", tree_integer(w->arena, DEFAULT_CKPT_KEEP));
    return rc;
}

int spec_widen(struct arena *arena, struct tree *spec, struct error *err)
{
    const ProtobufCMessageDescriptor *type = &muster__job_spec__descriptor;
    struct widen w = {arena, err};
    if (spec->kind == TREE_NULL)
        return error_set(err, E_INVALID_ARGUMENT, "it is empty: a job spec has at least a command");
    if (spec->kind != TREE_MAP)
        return tree_fail(spec, err, "a job spec is a map of settings, this is %s",
                         tree_kind_name(spec->kind));
    int rc = widen_nodes(&w, spec);
    if (rc == 0)
        rc = widen_command(&w, spec);
    if (rc == 0)
        rc = widen_restart(&w, spec);
    if (rc == 0)
        rc = widen_elastic(&w, spec);
    if (rc == 0)
        rc = widen_resources(&w, spec);
    if (rc == 0)
        rc = training_widen(arena, spec, err);
    if (rc == 0)
        rc = widen_checkpoint(&w, spec);
    if (rc == 0)
        rc = put_unit(&w, spec, type, "max_runtime", "s");
    if (rc == 0)
        rc = put_default(&w, spec, type, "tenant", tree_string(arena, "default"));
    if (rc == 0)
        rc = put_default(&w, spec, type, "priority", tree_string(arena, "normal"));
    if (rc == 0)
        rc = refuse_zero(&w, spec, type, "workers_per_node");
    if (rc == 0)
        rc = put_default(&w, spec, type, "workers_per_node", tree_integer(arena, 1));
    return rc;
}

/* What other systems call a slot; the nearest of our own names, cpus, would mislead. */
static void hint_gpus(struct error *err)
{
    const char *dot = err ? strrchr(err->field, '.') : NULL;
    const char *key = dot ? dot + 1 : err ? err->field : "";
    if (strcmp(key, "gpu") == 0 || strcmp(key, "gpus") == 0)
        error_hint(err, "a slot is a GPU, on a node that has some: resources: {slots: N}");
}

int spec_from_tree(struct arena *arena, struct tree *tree, Muster__JobSpec **ret, struct error *err)
{
    int rc = spec_widen(arena, tree, err);
    if (rc != 0)
        return rc;
    ProtobufCMessage *message;
    const struct transcode_input_options options = {.lenient = true};
    rc = transcode_from_tree(tree, &muster__job_spec__descriptor, &options, &message, err);
    if (rc == 0)
        *ret = (Muster__JobSpec *)message;
    else
        hint_gpus(err);
    return rc;
}

int spec_parse(const char *name, const char *text, size_t size, Muster__JobSpec **ret,
               struct error *err)
{
    struct arena arena;
    arena_init(&arena, ARENA_DEFAULT_MAX_BYTES);
    struct tree *tree;
    struct tree_input input = {.text = text, .size = size, .limits = {.bytes = SPEC_MAX_BYTES}};
    int rc = tree_looks_like_json(text, size) ? tree_parse_json(&input, &arena, &tree, err)
                                              : tree_parse_yaml(&input, &arena, &tree, err);
    if (rc == 0)
        rc = spec_from_tree(&arena, tree, ret, err);
    if (rc != 0 && name)
        error_wrap(err, "%s", name);
    arena_fini(&arena);
    return rc;
}

static int read_all(FILE *file, const char *name, char *ret_text, size_t *ret_size,
                    struct error *err)
{
    errno = 0;
    *ret_size = fread(ret_text, 1, SPEC_MAX_BYTES + 1, file);
    if (ferror(file))
        return error_errno(err, errno, "cannot read %s", name);
    if (*ret_size > SPEC_MAX_BYTES)
        return error_set(err, E_RESOURCE_EXHAUSTED, "%s is larger than the %d bytes of a spec",
                         name, SPEC_MAX_BYTES);
    return 0;
}

int spec_read_file(const char *path, Muster__JobSpec **ret, struct error *err)
{
    bool is_stdin = strcmp(path, "-") == 0;
    const char *name = is_stdin ? "standard input" : path;
    FILE *file = is_stdin ? stdin : fopen(path, "re");
    if (!file)
        return error_errno(err, errno, "cannot read %s", name);
    char *text = malloc(SPEC_MAX_BYTES + 1);
    size_t size = 0;
    int rc = text ? read_all(file, name, text, &size, err)
                  : error_set(err, E_RESOURCE_EXHAUSTED, "no memory for %s", name);
    if (rc == 0)
        rc = spec_parse(name, text, size, ret, err);
    free(text);
    if (!is_stdin)
        fclose(file);
    return rc;
}
