#include <string.h>

#include "common/base/arena.h"
#include "common/base/str.h"
#include "common/base/tree.h"
#include "common/base/tree_build.h"
#include "common/base/tree_write.h"
#include "coordinator/store/document.h"
#include "coordinator/store/document_fields.h"

/* Texts are from agents and programs: invalid UTF-8 in them must not make a job unstorable. */
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
    (void)str_printf(text, sizeof(text), "0x%016llx", (unsigned long long)value);
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
        if (!is_default && tree_map_set(arena, map, field->name, value))
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
        if (tree_list_add(list, write_fields(arena, items->fields, item)))
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
        if (tree_list_add(list, write_u64(arena, group->members[i])))
            return E_RESOURCE_EXHAUSTED;
    return tree_map_set(arena, map, key, list);
}

static int finish_document(struct arena *arena, struct tree *map, int rc, struct buf *out,
                           struct error *err)
{
    if (!map || rc)
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
    arena_init(&arena, DOCUMENT_TREE_MAX_BYTES);
    struct tree *map = write_fields(&arena, document_job_fields, job);
    int rc = map ? 0 : E_RESOURCE_EXHAUSTED;
    if (!rc)
        rc = write_members(&arena, map, "current_members", &job->current);
    if (!rc)
        rc = write_members(&arena, map, "forming_members", &job->forming);
    if (!rc)
        rc = write_items(&arena, map,
                         &(struct items){"workers", document_worker_fields, job->workers,
                                         sizeof(*job->workers), job->workers_count});
    if (!rc)
        rc =
            write_items(&arena, map,
                        &(struct items){"checkpoints", document_checkpoint_fields, job->checkpoints,
                                        sizeof(*job->checkpoints), job->checkpoints_count});
    return finish_document(&arena, map, rc, out, err);
}

int document_write_node(const struct node *node, struct buf *out, struct error *err)
{
    struct arena arena;
    arena_init(&arena, DOCUMENT_TREE_MAX_BYTES);
    struct tree *map = write_fields(&arena, document_node_fields, node);
    int rc = map ? 0 : E_RESOURCE_EXHAUSTED;
    if (!rc)
        rc = write_items(&arena, map,
                         &(struct items){"labels", document_label_fields, node->labels,
                                         sizeof(*node->labels), node->labels_count});
    if (!rc)
        rc = write_items(&arena, map,
                         &(struct items){"gpus", document_gpu_fields, node->gpus,
                                         sizeof(*node->gpus), node->gpus_count});
    return finish_document(&arena, map, rc, out, err);
}

int document_write_tenant(const struct store_tenant *tenant, struct buf *out, struct error *err)
{
    struct arena arena;
    arena_init(&arena, DOCUMENT_TREE_MAX_BYTES);
    return finish_document(&arena, write_fields(&arena, document_tenant_fields, tenant), 0, out,
                           err);
}

int document_write_reason(const struct reason *reason, struct buf *out, struct error *err)
{
    struct arena arena;
    arena_init(&arena, DOCUMENT_TREE_MAX_BYTES);
    return finish_document(&arena, write_fields(&arena, document_reason_fields, reason), 0, out,
                           err);
}
