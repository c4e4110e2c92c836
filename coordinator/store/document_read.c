#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/arena.h"
#include "common/base/hex.h"
#include "common/base/str.h"
#include "common/base/tree.h"
#include "coordinator/store/document.h"
#include "coordinator/store/document_fields.h"

static int read_fields(const struct tree *map, const struct field *fields, void *to,
                       struct error *err);

static int read_u64(const struct tree *node, uint64_t *ret, struct error *err)
{
    if (node->kind == TREE_STRING && str_starts(node->string, "0x") && strlen(node->string) == 18) {
        uint8_t bytes[8];
        if (hex_decode(node->string + 2, bytes, sizeof(bytes)))
            return tree_fail(node, err, "not a number");
        *ret = 0;
        for (int i = 0; i < 8; i++)
            *ret = *ret << 8 | bytes[i];
        return 0;
    }
    int64_t value;
    int rc = tree_read_i64(node, &value, err);
    if (rc)
        return rc;
    if (value < 0)
        return tree_fail(node, err, "negative number");
    *ret = (uint64_t)value;
    return 0;
}

static int read_name(const struct tree *node, const struct field *field, void *at,
                     struct error *err)
{
    const char *text;
    int rc = tree_read_string(node, &text, err);
    if (rc)
        return rc;
    for (unsigned i = 0; field->names[i]; i++) {
        if (strcmp(field->names[i], text) == 0) {
            *(unsigned *)at = i;
            return 0;
        }
    }
    return tree_fail(node, err, "unknown name '%s'", text);
}

static int read_double(const struct tree *node, double *ret, struct error *err)
{
    if (node->kind != TREE_STRING)
        return tree_read_f64(node, ret, err);
    if (strcmp(node->string, "NaN") == 0)
        *ret = NAN;
    else if (strcmp(node->string, "Infinity") == 0)
        *ret = INFINITY;
    else if (strcmp(node->string, "-Infinity") == 0)
        *ret = -INFINITY;
    else
        return tree_fail(node, err, "not a number");
    return 0;
}

static int read_value(const struct tree *node, const struct field *field, void *at,
                      struct error *err)
{
    int rc = 0;
    int64_t integer = 0;
    switch (field->kind) {
    case FIELD_TEXT: {
        const char *text;
        rc = tree_read_string(node, &text, err);
        if (!rc && str_copy(at, field->size, text))
            rc = tree_fail(node, err, "text longer than %zu bytes", field->size - 1);
        return rc;
    }
    case FIELD_INT:
        rc = tree_read_i64(node, &integer, err);
        if (!rc && (integer < INT32_MIN || integer > INT32_MAX))
            rc = tree_fail(node, err, "number out of range");
        if (!rc)
            *(int *)at = (int)integer;
        return rc;
    case FIELD_I64:
        return tree_read_i64(node, at, err);
    case FIELD_U64:
        return read_u64(node, at, err);
    case FIELD_DOUBLE:
        return read_double(node, at, err);
    case FIELD_BOOL:
        return tree_read_bool(node, at, err);
    case FIELD_NAME:
        return read_name(node, field, at, err);
    case FIELD_STRUCT:
        return read_fields(node, field->fields, at, err);
    }
    return 0;
}

/* The field of that name, searched from `*from` on and then from the start. Documents are written
 * in the table's order, so reading one passes over the table once. */
static const struct field *find_field(const struct field *fields, const struct field **from,
                                      const char *name)
{
    const struct field *field = *from;
    for (; field->name; field++)
        if (strcmp(field->name, name) == 0)
            break;
    if (!field->name)
        for (field = fields; field != *from && strcmp(field->name, name) != 0;)
            field++;
    if (!field->name || strcmp(field->name, name) != 0)
        return NULL;
    *from = field + 1;
    return field;
}

static int read_fields(const struct tree *map, const struct field *fields, void *to,
                       struct error *err)
{
    if (map->kind != TREE_MAP)
        return tree_fail(map, err, "expected a map");
    const struct field *from = fields;
    const struct tree *node;
    tree_each(node, map) {
        const struct field *field = find_field(fields, &from, node->key);
        int rc = field ? read_value(node, field, (char *)to + field->offset, err) : 0;
        if (rc)
            return rc;
    }
    return 0;
}

/* A list of maps into calloc'd items (ret_items) or into `max` items in place (*ret_items set). */
static int read_array(const struct tree *list, const struct field *fields, size_t item_bytes,
                      void **ret_items, int *ret_count, struct error *err)
{
    if (!list)
        return 0;
    if (list->kind != TREE_LIST || list->count > INT32_MAX)
        return tree_fail(list, err, "expected a list");
    if (!*ret_items)
        *ret_items = calloc(list->count ? list->count : 1, item_bytes);
    if (!*ret_items)
        return error_set(err, E_RESOURCE_EXHAUSTED, "out of memory");
    const struct tree *item;
    int count = 0;
    tree_each(item, list) {
        int rc = read_fields(item, fields, (char *)*ret_items + item_bytes * (size_t)count, err);
        if (rc)
            return rc;
        count++;
    }
    *ret_count = count;
    return 0;
}

static int read_members(const struct tree *list, struct group *group, struct error *err)
{
    if (group->world < 0 || (size_t)group->world != (list ? list->count : 0))
        return error_set(err, E_DATA_LOSS, "group of %d workers has %zu members", group->world,
                         list ? list->count : 0);
    if (group->world == 0)
        return 0;
    group->members = calloc((size_t)group->world, sizeof(*group->members));
    if (!group->members)
        return error_set(err, E_RESOURCE_EXHAUSTED, "out of memory");
    const struct tree *item;
    int rank = 0;
    tree_each(item, list) {
        int rc = read_u64(item, &group->members[rank++], err);
        if (rc)
            return rc;
    }
    return 0;
}

static int parse(const char *text, size_t size, struct arena *arena, struct tree **ret,
                 struct error *err)
{
    struct tree_input input = {
        .name = "document",
        .text = text,
        .size = size,
        .limits = {.bytes = DOCUMENT_MAX_BYTES, .nodes = DOCUMENT_MAX_BYTES},
    };
    arena_init(arena, DOCUMENT_TREE_MAX_BYTES);
    return tree_parse_json(&input, arena, ret, err);
}

/* Any error in a stored document means that data was lost. */
static int lost(int rc, struct error *err)
{
    if (!rc || rc == E_RESOURCE_EXHAUSTED)
        return rc;
    if (err)
        err->code = E_DATA_LOSS;
    return E_DATA_LOSS;
}

static int read_job(const struct tree *map, struct job *ret, struct error *err)
{
    void *workers = NULL, *checkpoints = NULL;
    int rc = read_fields(map, document_job_fields, ret, err);
    if (!rc)
        rc = read_members(tree_get(map, "current_members"), &ret->current, err);
    if (!rc)
        rc = read_members(tree_get(map, "forming_members"), &ret->forming, err);
    if (!rc)
        rc = read_array(tree_get(map, "workers"), document_worker_fields, sizeof(*ret->workers),
                        &workers, &ret->workers_count, err);
    ret->workers = workers;
    ret->workers_capacity = ret->workers_count;
    if (!rc)
        rc = read_array(tree_get(map, "checkpoints"), document_checkpoint_fields,
                        sizeof(*ret->checkpoints), &checkpoints, &ret->checkpoints_count, err);
    ret->checkpoints = checkpoints;
    return rc;
}

int document_read_job(const char *text, size_t size, struct job *ret, struct error *err)
{
    struct arena arena;
    struct tree *map;
    int rc = parse(text, size, &arena, &map, err);
    if (!rc)
        rc = read_job(map, ret, err);
    arena_fini(&arena);
    return lost(rc, err);
}

static int read_node(const struct tree *map, struct node *ret, struct error *err)
{
    const struct tree *labels = tree_get(map, "labels"), *gpus = tree_get(map, "gpus");
    if ((labels && labels->kind == TREE_LIST && labels->count > NODE_LABELS_MAX) ||
        (gpus && gpus->kind == TREE_LIST && gpus->count > NODE_GPUS_MAX))
        return tree_fail(map, err, "more labels or GPUs than a node may have");
    void *to_labels = ret->labels, *to_gpus = NULL;
    int rc = read_fields(map, document_node_fields, ret, err);
    if (!rc)
        rc = read_array(labels, document_label_fields, sizeof(*ret->labels), &to_labels,
                        &ret->labels_count, err);
    if (!rc)
        rc = read_array(gpus, document_gpu_fields, sizeof(*ret->gpus), &to_gpus, &ret->gpus_count,
                        err);
    ret->gpus = to_gpus;
    return rc;
}

int document_read_node(const char *text, size_t size, struct node *ret, struct error *err)
{
    struct arena arena;
    struct tree *map;
    int rc = parse(text, size, &arena, &map, err);
    if (!rc)
        rc = read_node(map, ret, err);
    arena_fini(&arena);
    return lost(rc, err);
}

int document_read_tenant(const char *text, size_t size, struct store_tenant *ret, struct error *err)
{
    struct arena arena;
    struct tree *map;
    int rc = parse(text, size, &arena, &map, err);
    if (!rc)
        rc = read_fields(map, document_tenant_fields, ret, err);
    arena_fini(&arena);
    return lost(rc, err);
}

int document_read_reason(const char *text, size_t size, struct reason *ret, struct error *err)
{
    struct arena arena;
    struct tree *map;
    int rc = parse(text, size, &arena, &map, err);
    if (!rc)
        rc = read_fields(map, document_reason_fields, ret, err);
    arena_fini(&arena);
    return lost(rc, err);
}
