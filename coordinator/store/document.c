#include "coordinator/store/document.h"

#include <math.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/arena.h"
#include "common/base/hex.h"
#include "common/base/parse.h"
#include "common/base/str.h"
#include "common/base/tree.h"

enum { TREE_MAX_BYTES = 1 << 30 }; /* of the tree a document is made from */

enum field_kind {
    FIELD_TEXT,
    FIELD_INT,
    FIELD_I64,
    FIELD_U64,
    FIELD_DOUBLE,
    FIELD_BOOL,
    FIELD_NAME, /* an enum, by the name of its value */
    FIELD_STRUCT,
};

struct field {
    const char *name; /* NULL ends a table */
    enum field_kind kind;
    size_t offset, size;
    const char *const *names;   /* of FIELD_NAME, NULL-terminated */
    const struct field *fields; /* of FIELD_STRUCT */
};

#define NAME_OF(upper, lower) #lower,
static const char *const node_names[] = {NODE_STATES(NAME_OF) NULL};
static const char *const job_names[] = {JOB_STATES(NAME_OF) NULL};
static const char *const worker_names[] = {WORKER_STATES(NAME_OF) NULL};

#define FIELD(type, field_kind, member)                                                            \
    {                                                                                              \
        .name = #member, .kind = FIELD_##field_kind, .offset = offsetof(struct type, member),      \
        .size = sizeof(((struct type *)0)->member)                                                 \
    }
#define ENUM_FIELD(type, member, value_names)                                                      \
    {                                                                                              \
        .name = #member, .kind = FIELD_NAME, .offset = offsetof(struct type, member),              \
        .size = sizeof(((struct type *)0)->member), .names = (value_names)                         \
    }
#define STRUCT_FIELD(type, member, table)                                                          \
    {                                                                                              \
        .name = #member, .kind = FIELD_STRUCT, .offset = offsetof(struct type, member),            \
        .size = sizeof(((struct type *)0)->member), .fields = (table)                              \
    }
#define END_OF_FIELDS                                                                              \
    {                                                                                              \
        .name = NULL                                                                               \
    }

static const struct field reason_fields[] = {
    FIELD(reason, TEXT, kind), FIELD(reason, TEXT, text), FIELD(reason, TEXT, node),
    FIELD(reason, INT, rank),  FIELD(reason, TEXT, hint), END_OF_FIELDS,
};

static const struct field gpu_fields[] = {
    FIELD(gpu, INT, index),        FIELD(gpu, TEXT, model), FIELD(gpu, TEXT, uuid),
    FIELD(gpu, I64, memory_bytes), END_OF_FIELDS,
};

static const struct field label_fields[] = {
    FIELD(label, TEXT, key),
    FIELD(label, TEXT, value),
    END_OF_FIELDS,
};

static const struct field node_fields[] = {
    FIELD(node, TEXT, name),
    ENUM_FIELD(node, state, node_names),
    STRUCT_FIELD(node, reason, reason_fields),
    FIELD(node, U64, incarnation),
    FIELD(node, U64, last_report),
    FIELD(node, TEXT, address),
    FIELD(node, TEXT, version),
    FIELD(node, INT, slots),
    FIELD(node, INT, cpus_milli),
    FIELD(node, I64, memory_bytes),
    FIELD(node, INT, port_first),
    FIELD(node, INT, port_last),
    FIELD(node, BOOL, want_cordon),
    FIELD(node, BOOL, want_drain),
    FIELD(node, I64, joined_wall_ms),
    FIELD(node, I64, seen_wall_ms),
    FIELD(node, U64, desired_version),
    END_OF_FIELDS,
};

static const struct field exit_fields[] = {
    FIELD(exit_info, INT, code),    FIELD(exit_info, INT, signal),
    FIELD(exit_info, BOOL, oom),    FIELD(exit_info, BOOL, lost),
    FIELD(exit_info, TEXT, text),   FIELD(exit_info, TEXT, last_output),
    FIELD(exit_info, I64, wall_ms), END_OF_FIELDS,
};

static const struct field worker_fields[] = {
    FIELD(worker, U64, uid),
    FIELD(worker, TEXT, node),
    ENUM_FIELD(worker, state, worker_names),
    FIELD(worker, BOOL, should_stop),
    FIELD(worker, BOOL, held),
    FIELD(worker, BOOL, aware),
    FIELD(worker, INT, slot),
    FIELD(worker, INT, local_rank),
    FIELD(worker, I64, pid),
    FIELD(worker, U64, step),
    FIELD(worker, U64, joined),
    FIELD(worker, U64, joining),
    FIELD(worker, TEXT, endpoint),
    FIELD(worker, U64, broken),
    FIELD(worker, U64, lost_in),
    FIELD(worker, U64, born),
    FIELD(worker, U64, generation),
    FIELD(worker, INT, rank),
    STRUCT_FIELD(worker, exit, exit_fields),
    END_OF_FIELDS,
};

static const struct field group_fields[] = {
    FIELD(group, U64, generation),   FIELD(group, INT, world),
    FIELD(group, BOOL, published),   FIELD(group, BOOL, joined),
    FIELD(group, BOOL, open),        FIELD(group, BOOL, broken),
    FIELD(group, TEXT, master_node), FIELD(group, INT, master_port),
    FIELD(group, I64, since_ms),     END_OF_FIELDS,
};

static const struct field checkpoint_fields[] = {
    FIELD(checkpoint, U64, step),
    FIELD(checkpoint, U64, generation),
    FIELD(checkpoint, TEXT, path),
    FIELD(checkpoint, I64, wall_ms),
    FIELD(checkpoint, I64, size_bytes),
    FIELD(checkpoint, INT, world),
    END_OF_FIELDS,
};

static const struct field job_fields[] = {
    FIELD(job, TEXT, id),
    FIELD(job, U64, sequence),
    ENUM_FIELD(job, state, job_names),
    STRUCT_FIELD(job, reason, reason_fields),
    FIELD(job, U64, version),
    FIELD(job, U64, next_generation),
    FIELD(job, U64, next_uid),
    STRUCT_FIELD(job, current, group_fields),
    STRUCT_FIELD(job, forming, group_fields),
    FIELD(job, INT, restarts),
    FIELD(job, INT, restarts_without_progress),
    FIELD(job, U64, progress_step),
    FIELD(job, INT, same_cause),
    FIELD(job, TEXT, last_cause),
    FIELD(job, I64, cause_wall_ms),
    FIELD(job, I64, backoff_until_ms),
    FIELD(job, I64, grow_after_ms),
    FIELD(job, INT, grow_failures),
    FIELD(job, U64, step),
    FIELD(job, U64, total_steps),
    FIELD(job, DOUBLE, loss),
    FIELD(job, DOUBLE, tokens_per_second),
    FIELD(job, I64, broken_at_ms),
    FIELD(job, U64, broken_at_step),
    FIELD(job, U64, recoveries),
    FIELD(job, I64, last_recovery_ms),
    FIELD(job, I64, stop_deadline_ms),
    FIELD(job, I64, runtime_deadline_ms),
    FIELD(job, BOOL, cancel_requested),
    ENUM_FIELD(job, ending, job_names),
    FIELD(job, INT, exit_code),
    FIELD(job, I64, submitted_wall_ms),
    FIELD(job, I64, started_wall_ms),
    FIELD(job, I64, ended_wall_ms),
    FIELD(job, TEXT, idempotency_key),
    END_OF_FIELDS,
};

/* Texts come from agents and programs: what is not UTF-8 in them must not make a job unstorable. */
static struct tree *clean_text(struct arena *arena, const char *text)
{
    size_t size = strlen(text);
    if (utf8_valid(text, size))
        return tree_string(arena, text);
    char *copy = arena_strdup(arena, text);
    for (size_t i = 0; copy && i < size;) {
        size_t step = utf8_decode(copy + i, size - i, NULL);
        if (step == 0)
            copy[i] = '?';
        i += step ? step : 1;
    }
    return copy ? tree_string(arena, copy) : NULL;
}

/* Numbers beyond a signed 64-bit integer (incarnations are random) are hexadecimal strings. */
static struct tree *write_u64(struct arena *arena, uint64_t value)
{
    if (value <= INT64_MAX)
        return tree_integer(arena, (int64_t)value);
    char text[24];
    (void)str_printf(text, sizeof text, "0x%016llx", (unsigned long long)value);
    return tree_string(arena, text);
}

static struct tree *write_fields(struct arena *arena, const struct field *fields, const void *from);

/* NULL without a failure means the value is its default. */
static struct tree *write_value(struct arena *arena, const struct field *field, const void *at,
                                bool *ret_default)
{
    *ret_default = false;
    switch (field->kind) {
    case FIELD_TEXT:
        *ret_default = *(const char *)at == 0;
        return *ret_default ? NULL : clean_text(arena, at);
    case FIELD_INT:
        *ret_default = *(const int *)at == 0;
        return *ret_default ? NULL : tree_integer(arena, *(const int *)at);
    case FIELD_I64:
        *ret_default = *(const int64_t *)at == 0;
        return *ret_default ? NULL : tree_integer(arena, *(const int64_t *)at);
    case FIELD_U64:
        *ret_default = *(const uint64_t *)at == 0;
        return *ret_default ? NULL : write_u64(arena, *(const uint64_t *)at);
    case FIELD_DOUBLE:
        *ret_default = *(const double *)at == 0;
        return *ret_default ? NULL : tree_number(arena, *(const double *)at);
    case FIELD_BOOL:
        *ret_default = !*(const bool *)at;
        return *ret_default ? NULL : tree_bool(arena, true);
    case FIELD_NAME:
        return tree_string(arena, field->names[*(const unsigned *)at]);
    case FIELD_STRUCT: {
        struct tree *map = write_fields(arena, field->fields, at);
        *ret_default = map && map->count == 0;
        return map;
    }
    }
    return NULL;
}

static struct tree *write_fields(struct arena *arena, const struct field *fields, const void *from)
{
    struct tree *map = tree_map(arena);
    for (const struct field *field = fields; map && field->name; field++) {
        bool is_default;
        struct tree *value =
            write_value(arena, field, (const char *)from + field->offset, &is_default);
        if (!is_default && tree_map_set(arena, map, field->name, value) < 0)
            return NULL;
    }
    return map;
}

struct items { /* an array of structs */
    const char *key;
    const struct field *fields;
    const void *at;
    size_t item_bytes;
    int count;
};

static int write_items(struct arena *arena, struct tree *map, const struct items *items)
{
    if (items->count == 0)
        return 0;
    struct tree *list = tree_list(arena);
    for (int i = 0; list && i < items->count; i++) {
        const char *item = (const char *)items->at + items->item_bytes * (size_t)i;
        if (tree_list_add(list, write_fields(arena, items->fields, item)) < 0)
            return E_RESOURCE_EXHAUSTED;
    }
    return tree_map_set(arena, map, items->key, list);
}

static int write_members(struct arena *arena, struct tree *map, const char *key,
                         const struct group *group)
{
    if (group->world == 0)
        return 0;
    struct tree *list = tree_list(arena);
    for (int i = 0; list && i < group->world; i++)
        if (tree_list_add(list, write_u64(arena, group->members[i])) < 0)
            return E_RESOURCE_EXHAUSTED;
    return tree_map_set(arena, map, key, list);
}

static int finish(struct arena *arena, struct tree *map, int rc, struct buf *out, struct error *err)
{
    if (!map || rc < 0)
        rc = error_set(err, E_RESOURCE_EXHAUSTED, "document is larger than %d bytes",
                       DOCUMENT_MAX_BYTES);
    else
        rc = tree_write_json(map, TREE_COMPACT, out, err);
    arena_fini(arena);
    return rc;
}

int document_write_job(const struct job *job, struct buf *out, struct error *err)
{
    struct arena arena;
    arena_init(&arena, TREE_MAX_BYTES);
    struct tree *map = write_fields(&arena, job_fields, job);
    int rc = map ? 0 : E_RESOURCE_EXHAUSTED;
    if (rc == 0)
        rc = write_members(&arena, map, "current_members", &job->current);
    if (rc == 0)
        rc = write_members(&arena, map, "forming_members", &job->forming);
    if (rc == 0)
        rc = write_items(&arena, map,
                         &(struct items){"workers", worker_fields, job->workers,
                                         sizeof *job->workers, job->workers_count});
    if (rc == 0)
        rc = write_items(&arena, map,
                         &(struct items){"checkpoints", checkpoint_fields, job->checkpoints,
                                         sizeof *job->checkpoints, job->checkpoints_count});
    return finish(&arena, map, rc, out, err);
}

int document_write_node(const struct node *node, struct buf *out, struct error *err)
{
    struct arena arena;
    arena_init(&arena, TREE_MAX_BYTES);
    struct tree *map = write_fields(&arena, node_fields, node);
    int rc = map ? 0 : E_RESOURCE_EXHAUSTED;
    if (rc == 0)
        rc = write_items(&arena, map,
                         &(struct items){"labels", label_fields, node->labels, sizeof *node->labels,
                                         node->labels_count});
    if (rc == 0)
        rc = write_items(
            &arena, map,
            &(struct items){"gpus", gpu_fields, node->gpus, sizeof *node->gpus, node->gpus_count});
    return finish(&arena, map, rc, out, err);
}

int document_write_reason(const struct reason *reason, struct buf *out, struct error *err)
{
    struct arena arena;
    arena_init(&arena, TREE_MAX_BYTES);
    return finish(&arena, write_fields(&arena, reason_fields, reason), 0, out, err);
}

static int read_fields(const struct tree *map, const struct field *fields, void *to,
                       struct error *err);

static int read_u64(const struct tree *node, uint64_t *ret, struct error *err)
{
    if (node->kind == TREE_STRING && str_starts(node->string, "0x") && strlen(node->string) == 18) {
        uint8_t bytes[8];
        if (hex_decode(node->string + 2, bytes, sizeof bytes) < 0)
            return tree_fail(node, err, "not a number");
        *ret = 0;
        for (int i = 0; i < 8; i++)
            *ret = *ret << 8 | bytes[i];
        return 0;
    }
    int64_t value;
    int rc = tree_read_i64(node, &value, err);
    if (rc < 0)
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
    if (rc < 0)
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
        if (rc == 0 && str_copy(at, field->size, text) < 0)
            rc = tree_fail(node, err, "text longer than %zu bytes", field->size - 1);
        return rc;
    }
    case FIELD_INT:
        rc = tree_read_i64(node, &integer, err);
        if (rc == 0 && (integer < INT32_MIN || integer > INT32_MAX))
            rc = tree_fail(node, err, "number out of range");
        if (rc == 0)
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

/* The field of that name, looked for from `*from` on and then from the start: documents are written
 * in the table's order, so that reading one passes over the table once. */
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
    tree_each(node, map)
    {
        const struct field *field = find_field(fields, &from, node->key);
        int rc = field ? read_value(node, field, (char *)to + field->offset, err) : 0;
        if (rc < 0)
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
    tree_each(item, list)
    {
        int rc = read_fields(item, fields, (char *)*ret_items + item_bytes * (size_t)count, err);
        if (rc < 0)
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
    group->members = calloc((size_t)group->world, sizeof *group->members);
    if (!group->members)
        return error_set(err, E_RESOURCE_EXHAUSTED, "out of memory");
    const struct tree *item;
    int rank = 0;
    tree_each(item, list)
    {
        int rc = read_u64(item, &group->members[rank++], err);
        if (rc < 0)
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
    arena_init(arena, TREE_MAX_BYTES);
    return tree_parse_json(&input, arena, ret, err);
}

/* Whatever is wrong with a stored document, its reader lost data. */
static int lost(int rc, struct error *err)
{
    if (rc == 0 || rc == E_RESOURCE_EXHAUSTED)
        return rc;
    if (err)
        err->code = E_DATA_LOSS;
    return E_DATA_LOSS;
}

static int read_job(const struct tree *map, struct job *ret, struct error *err)
{
    void *workers = NULL, *checkpoints = NULL;
    int rc = read_fields(map, job_fields, ret, err);
    if (rc == 0)
        rc = read_members(tree_get(map, "current_members"), &ret->current, err);
    if (rc == 0)
        rc = read_members(tree_get(map, "forming_members"), &ret->forming, err);
    if (rc == 0)
        rc = read_array(tree_get(map, "workers"), worker_fields, sizeof *ret->workers, &workers,
                        &ret->workers_count, err);
    ret->workers = workers;
    ret->workers_capacity = ret->workers_count;
    if (rc == 0)
        rc = read_array(tree_get(map, "checkpoints"), checkpoint_fields, sizeof *ret->checkpoints,
                        &checkpoints, &ret->checkpoints_count, err);
    ret->checkpoints = checkpoints;
    return rc;
}

int document_read_job(const char *text, size_t size, struct job *ret, struct error *err)
{
    struct arena arena;
    struct tree *map;
    int rc = parse(text, size, &arena, &map, err);
    if (rc == 0)
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
    void *to_labels = ret->labels, *to_gpus = ret->gpus;
    int rc = read_fields(map, node_fields, ret, err);
    if (rc == 0)
        rc = read_array(labels, label_fields, sizeof *ret->labels, &to_labels, &ret->labels_count,
                        err);
    if (rc == 0)
        rc = read_array(gpus, gpu_fields, sizeof *ret->gpus, &to_gpus, &ret->gpus_count, err);
    return rc;
}

int document_read_node(const char *text, size_t size, struct node *ret, struct error *err)
{
    struct arena arena;
    struct tree *map;
    int rc = parse(text, size, &arena, &map, err);
    if (rc == 0)
        rc = read_node(map, ret, err);
    arena_fini(&arena);
    return lost(rc, err);
}

int document_read_reason(const char *text, size_t size, struct reason *ret, struct error *err)
{
    struct arena arena;
    struct tree *map;
    int rc = parse(text, size, &arena, &map, err);
    if (rc == 0)
        rc = read_fields(map, reason_fields, ret, err);
    arena_fini(&arena);
    return lost(rc, err);
}
