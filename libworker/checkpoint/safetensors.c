#include <stdlib.h>
#include <string.h>

#include <worker/error.h>

#include "common/base/str.h"
#include "common/base/tree.h"
#include "libworker/checkpoint/file.h"
#include "libworker/checkpoint/safetensors.h"

enum { SIZE_BYTES = 8 };

static const struct {
    const char *name;
    enum wk_dtype dtype;
} types[] = {{"F32", WK_F32}, {"F64", WK_F64}, {"F16", WK_F16}, {"BF16", WK_BF16},
             {"I32", WK_I32}, {"I64", WK_I64}, {"U8", WK_U8},   {"BOOL", WK_BOOL}};

enum { TYPES = sizeof(types) / sizeof(types[0]) };

static const char *type_name(enum wk_dtype dtype)
{
    for (int i = 0; i < TYPES; i++)
        if (types[i].dtype == dtype)
            return types[i].name;
    return "?";
}

int safetensors_header_bytes(const void *first8, uint64_t file_bytes, size_t *ret,
                             struct error *err)
{
    const unsigned char *bytes = first8;
    uint64_t size = 0;
    for (int i = SIZE_BYTES - 1; i >= 0; i--)
        size = size << 8 | bytes[i];
    if (size > SAFETENSORS_HEADER_MAX_BYTES)
        return error_set(err, WK_EIO, "a header of %llu bytes", (unsigned long long)size);
    if (size < 2 || size + SIZE_BYTES > file_bytes)
        return error_set(err, WK_EIO, "a header of %llu bytes in a file of %llu",
                         (unsigned long long)size, (unsigned long long)file_bytes);
    *ret = (size_t)size + SIZE_BYTES;
    return 0;
}

static int read_type(const struct tree *node, enum wk_dtype *ret, struct error *err)
{
    const char *name;
    if (tree_read_string(tree_get(node, "dtype"), &name, err))
        return error_recode(err, WK_EIO);
    for (int i = 0; i < TYPES; i++) {
        if (strcmp(types[i].name, name) == 0) {
            *ret = types[i].dtype;
            return 0;
        }
    }
    return error_set(err, WK_EUNSUPPORTED, "its type %s is not known here", name);
}

static int read_shape(const struct tree *list, struct safetensors_entry *entry, uint64_t *ret_bytes,
                      struct error *err)
{
    if (!list || list->kind != TREE_LIST || list->count > SAFETENSORS_DIMS_MAX)
        return error_set(err, WK_EIO, "its shape is not a list of at most %d numbers",
                         SAFETENSORS_DIMS_MAX);
    uint64_t bytes = wk_dtype_bytes(entry->dtype);
    const struct tree *node;
    tree_each(node, list) {
        int64_t size;
        if (tree_read_i64(node, &size, err))
            return error_recode(err, WK_EIO);
        if (size < 0 || (size > 0 && bytes > (uint64_t)INT64_MAX / (uint64_t)size))
            return error_set(err, WK_EIO, "its shape is out of range");
        entry->shape[entry->dims++] = size;
        bytes *= (uint64_t)size;
    }
    *ret_bytes = bytes;
    return 0;
}

static int read_entry(const struct tree *node, uint64_t data_start, struct safetensors_entry *ret,
                      struct error *err)
{
    struct safetensors_entry entry = {.name = node->key};
    if (node->kind != TREE_MAP)
        return error_set(err, WK_EIO, "it is %s", tree_kind_name(node->kind));
    if (!*node->key || strlen(node->key) > SAFETENSORS_NAME_MAX)
        return error_set(err, WK_EIO, "its name is empty or too long");
    int rc = read_type(node, &entry.dtype, err);
    uint64_t bytes = 0;
    if (!rc)
        rc = read_shape(tree_get(node, "shape"), &entry, &bytes, err);
    if (rc)
        return rc;
    const struct tree *range = tree_get(node, "data_offsets");
    int64_t begin, end;
    if (!range || range->kind != TREE_LIST || range->count != 2)
        return error_set(err, WK_EIO, "its data_offsets are not two numbers");
    if (tree_read_i64(tree_at(range, 0), &begin, err) ||
        tree_read_i64(tree_at(range, 1), &end, err))
        return error_recode(err, WK_EIO);
    if (begin < 0 || end < begin || (uint64_t)(end - begin) != bytes)
        return error_set(err, WK_EIO, "%lld to %lld are not its %llu bytes", (long long)begin,
                         (long long)end, (unsigned long long)bytes);
    entry.offset = data_start + (uint64_t)begin;
    entry.bytes = bytes;
    *ret = entry;
    return 0;
}

static int by_offset(const void *a, const void *b)
{
    const struct safetensors_entry *x = a, *y = b;
    if (x->offset != y->offset)
        return x->offset < y->offset ? -1 : 1;
    return x->bytes < y->bytes ? -1 : x->bytes > y->bytes;
}

/* Every byte after the header belongs to exactly one tensor. */
static int check_cover(const struct safetensors *safetensors, uint64_t start, uint64_t file_bytes,
                       struct error *err)
{
    uint64_t at = start;
    for (int i = 0; i < safetensors->count; i++) {
        const struct safetensors_entry *entry = &safetensors->entries[i];
        if (entry->offset != at || entry->bytes > file_bytes - at)
            return error_set(err, WK_EIO, "tensor %s does not follow the one before it",
                             entry->name);
        at += entry->bytes;
    }
    if (at != file_bytes)
        return error_set(err, WK_EIO, "%llu bytes of tensors in a file with %llu",
                         (unsigned long long)(at - start),
                         (unsigned long long)(file_bytes - start));
    return 0;
}

static int parse_entries(const struct tree *root, uint64_t start, struct safetensors *ret,
                         struct error *err)
{
    if (root->kind != TREE_MAP)
        return error_set(err, WK_EIO, "the header is %s", tree_kind_name(root->kind));
    if (root->count > SAFETENSORS_TENSORS_MAX)
        return error_set(err, WK_EIO, "%zu tensors are too many", root->count);
    ret->entries = arena_array(&ret->arena, root->count + 1, sizeof(*ret->entries));
    if (!ret->entries) {
        (void)error_set(err, WK_ENOMEM, "no memory for %zu tensors", root->count);
        return file_unparsed(&ret->arena, err);
    }
    const struct tree *node;
    tree_each(node, root) {
        if (strcmp(node->key, "__metadata__") == 0)
            continue;
        int rc = read_entry(node, start, &ret->entries[ret->count], err);
        if (rc) {
            error_wrap(err, "tensor %.80s", node->key);
            return rc;
        }
        ret->count++;
    }
    qsort(ret->entries, (size_t)ret->count, sizeof(*ret->entries), by_offset);
    return 0;
}

int safetensors_parse(const void *header, size_t size, uint64_t file_bytes, struct safetensors *ret,
                      struct error *err)
{
    size_t expected;
    if (size < SIZE_BYTES)
        return error_set(err, WK_EIO, "%zu bytes are no header", size);
    int rc = safetensors_header_bytes(header, file_bytes, &expected, err);
    if (rc)
        return rc;
    if (size != expected)
        return error_set(err, WK_EIO, "%zu bytes of a header of %zu", size, expected);
    struct safetensors safetensors = {0};
    arena_init(&safetensors.arena, (size_t)SAFETENSORS_HEADER_MAX_BYTES * 8);
    struct tree_input input = {
        .name = "header",
        .text = (const char *)header + SIZE_BYTES,
        .size = size - SIZE_BYTES,
        .limits = {SAFETENSORS_HEADER_MAX_BYTES, 4, (size_t)SAFETENSORS_TENSORS_MAX * 16},
    };
    struct tree *root;
    if (tree_parse_json(&input, &safetensors.arena, &root, err))
        rc = file_unparsed(&safetensors.arena, err);
    if (!rc)
        rc = parse_entries(root, size, &safetensors, err);
    if (!rc)
        rc = check_cover(&safetensors, size, file_bytes, err);
    if (rc) {
        safetensors_fini(&safetensors);
        return rc;
    }
    *ret = safetensors;
    return 0;
}

void safetensors_fini(struct safetensors *safetensors)
{
    arena_fini(&safetensors->arena);
    *safetensors = (struct safetensors){0};
}

const struct safetensors_entry *safetensors_find(const struct safetensors *safetensors,
                                                 const char *name)
{
    for (int i = 0; i < safetensors->count; i++)
        if (strcmp(safetensors->entries[i].name, name) == 0)
            return &safetensors->entries[i];
    return NULL;
}

static void write_entry(const struct safetensors_entry *entry, uint64_t begin, struct buf *out)
{
    (void)buf_json_string(out, entry->name, strlen(entry->name));
    (void)buf_printf(out, ":{\"dtype\":\"%s\",\"shape\":[", type_name(entry->dtype));
    for (int i = 0; i < entry->dims; i++)
        (void)buf_printf(out, "%s%lld", i ? "," : "", (long long)entry->shape[i]);
    (void)buf_printf(out, "],\"data_offsets\":[%llu,%llu]}", (unsigned long long)begin,
                     (unsigned long long)(begin + entry->bytes));
}

int safetensors_write_header(struct safetensors_entry *entries, int count, struct buf *out)
{
    size_t start = out->size;
    (void)buf_fill(out, 0, SIZE_BYTES);
    (void)buf_str(out, "{\"__metadata__\":{\"format\":\"pt\"}");
    uint64_t begin = 0;
    for (int i = 0; i < count; i++) {
        (void)buf_char(out, ',');
        write_entry(&entries[i], begin, out);
        begin += entries[i].bytes;
    }
    (void)buf_char(out, '}');
    size_t over = (out->size - start) % SAFETENSORS_ALIGN_BYTES;
    (void)buf_fill(out, ' ', over ? SAFETENSORS_ALIGN_BYTES - over : 0);
    if (buf_failed(out))
        return WK_ENOMEM;
    uint64_t size = out->size - start - SIZE_BYTES, at = out->size - start;
    for (int i = 0; i < SIZE_BYTES; i++)
        out->data[start + (size_t)i] = (char)(size >> 8 * i);
    for (int i = 0; i < count; i++) {
        entries[i].offset = at;
        at += entries[i].bytes;
    }
    return 0;
}
