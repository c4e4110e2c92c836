#include <stdlib.h>
#include <string.h>

#include <worker/error.h>

#include "common/base/crc32c.h"
#include "common/base/hex.h"
#include "common/base/tree.h"
#include "common/base/tree_write.h"
#include "libworker/checkpoint/file.h"
#include "libworker/checkpoint/manifest.h"

enum { VERSION = 1, TENSORS_MAX = 1 << 17, NAME_MAX_BYTES = 512 };

static const char format_name[] = "muster-checkpoint";

/* The end of a manifest: a digest of all that is before. */
#define SEAL "  \"crc32c\": \"%08x\"\n}\n"
enum { SEAL_BYTES = sizeof("  \"crc32c\": \"00000000\"\n}\n") - 1 };

int64_t manifest_count(const struct manifest_tensor *tensor)
{
    int64_t count = 1;
    for (int i = 0; i < tensor->dims; i++)
        count *= tensor->shape[i];
    return count;
}

uint64_t manifest_bytes(const struct manifest *manifest)
{
    uint64_t bytes = 0;
    for (int i = 0; i < manifest->n_files; i++)
        bytes += manifest->files[i].bytes;
    return bytes;
}

static void write_name(struct buf *out, const char *key, const char *name)
{
    (void)buf_printf(out, "\"%s\": ", key);
    (void)buf_json_string(out, name, strlen(name));
}

static void write_tensor(struct buf *out, const struct manifest_tensor *tensor)
{
    (void)buf_str(out, "    {");
    write_name(out, "name", tensor->name);
    (void)buf_printf(out, ", \"dtype\": \"%s\", \"shape\": [", wk_dtype_name(tensor->dtype));
    for (int i = 0; i < tensor->dims; i++)
        (void)buf_printf(out, "%s%lld", i ? ", " : "", (long long)tensor->shape[i]);
    (void)buf_str(out, "], \"parts\": [");
    for (int i = 0; i < tensor->n_parts; i++) {
        const struct manifest_part *part = &tensor->parts[i];
        (void)buf_printf(
            out, "%s{\"file\": %d, \"start\": %lld, \"count\": %lld, \"crc32c\": \"%08x\"}",
            i ? ", " : "", part->file, (long long)part->start, (long long)part->count, part->crc);
    }
    (void)buf_str(out, "]}");
}

static void write_models(struct buf *out, const struct manifest *manifest)
{
    if (!manifest->n_models)
        return;
    (void)buf_str(out, "  \"models\": [");
    for (int i = 0; i < manifest->n_models; i++)
        (void)buf_printf(out, "%s%s", i ? ", " : "",
                         manifest->models[i] ? manifest->models[i] : "null");
    (void)buf_str(out, "],\n");
}

int manifest_write(const struct manifest *manifest, struct buf *out)
{
    size_t start = out->size;
    (void)buf_printf(out, "{\n  \"format\": \"%s\",\n  \"version\": %d,\n", format_name, VERSION);
    (void)buf_printf(out, "  \"step\": %lld,\n  \"generation\": %llu,\n  \"world\": %d,\n",
                     (long long)manifest->step, (unsigned long long)manifest->generation,
                     manifest->world);
    (void)buf_printf(out, "  \"wall_ms\": %lld,\n  ", (long long)manifest->wall_ms);
    write_name(out, "strategy", manifest->strategy);
    (void)buf_printf(out, ",\n  \"mesh\": {\"dp\": %d, \"tp\": %d, \"pp\": %d, \"cp\": %d},\n",
                     manifest->mesh_dp, manifest->mesh_tp, manifest->mesh_pp, manifest->mesh_cp);
    write_models(out, manifest);
    (void)buf_str(out, "  \"files\": [\n");
    for (int i = 0; i < manifest->n_files; i++) {
        const struct manifest_file *file = &manifest->files[i];
        (void)buf_str(out, "    {");
        write_name(out, "name", file->name);
        (void)buf_printf(out,
                         ", \"bytes\": %llu, \"header_bytes\": %llu, \"crc32c\": \"%08x\"}%s\n",
                         (unsigned long long)file->bytes, (unsigned long long)file->header_bytes,
                         file->crc, i + 1 < manifest->n_files ? "," : "");
    }
    (void)buf_str(out, "  ],\n  \"tensors\": [\n");
    for (int i = 0; i < manifest->n_tensors; i++) {
        write_tensor(out, &manifest->tensors[i]);
        (void)buf_str(out, i + 1 < manifest->n_tensors ? ",\n" : "\n");
    }
    (void)buf_str(out, "  ],\n");
    (void)buf_printf(out, SEAL, crc32c(0, out->data + start, out->size - start));
    return buf_failed(out) ? WK_ENOMEM : 0;
}

static int read_number(const struct tree *node, const char *key, int64_t max, int64_t *ret,
                       struct error *err)
{
    if (tree_read_i64(tree_get(node, key), ret, err) || *ret < 0 || *ret > max)
        return error_set(err, WK_EIO, "\"%s\" is missing or out of range", key);
    return 0;
}

static int read_int(const struct tree *node, const char *key, int max, int *ret, struct error *err)
{
    int64_t number;
    int rc = read_number(node, key, max, &number, err);
    if (!rc)
        *ret = (int)number;
    return rc;
}

static int read_text(const struct tree *node, const char *key, const char **ret, struct error *err)
{
    const struct tree *text = tree_get(node, key);
    if (!text || text->kind != TREE_STRING || !*text->string ||
        strlen(text->string) > NAME_MAX_BYTES)
        return error_set(err, WK_EIO, "\"%s\" is missing or no text", key);
    *ret = text->string;
    return 0;
}

static int read_crc(const struct tree *node, uint32_t *ret, struct error *err)
{
    const char *text;
    unsigned char bytes[4];
    int rc = read_text(node, "crc32c", &text, err);
    if (rc)
        return rc;
    if (strlen(text) != 8 || hex_decode(text, bytes, 4))
        return error_set(err, WK_EIO, "\"%.16s\" is no CRC-32C", text);
    *ret = (uint32_t)bytes[0] << 24 | (uint32_t)bytes[1] << 16 | (uint32_t)bytes[2] << 8 | bytes[3];
    return 0;
}

/* What is no manifest may want more than a manifest can. */
static int no_room(const struct arena *arena, struct error *err)
{
    (void)error_set(err, WK_ENOMEM, "no memory for a manifest");
    return file_unparsed(arena, err);
}

static int read_files(const struct tree *list, struct manifest *manifest, struct error *err)
{
    const struct tree *node;
    if (!list || list->kind != TREE_LIST || list->count > MANIFEST_FILES_MAX)
        return error_set(err, WK_EIO, "\"files\" is missing or too long");
    manifest->files = arena_array(&manifest->arena, list->count + 1, sizeof(*manifest->files));
    if (!manifest->files)
        return no_room(&manifest->arena, err);
    tree_each(node, list) {
        struct manifest_file *file = &manifest->files[manifest->n_files++];
        int64_t bytes = 0, header_bytes = 0;
        int rc = read_text(node, "name", &file->name, err);
        if (!rc && (strchr(file->name, '/') || *file->name == '.'))
            rc = error_set(err, WK_EIO, "\"%.80s\" is no file of a checkpoint", file->name);
        if (!rc)
            rc = read_number(node, "bytes", INT64_MAX, &bytes, err);
        if (!rc)
            rc = read_number(node, "header_bytes", bytes, &header_bytes, err);
        if (!rc)
            rc = read_crc(node, &file->crc, err);
        if (rc)
            return rc;
        file->bytes = (uint64_t)bytes;
        file->header_bytes = (uint64_t)header_bytes;
    }
    return 0;
}

static int read_parts(const struct tree *list, struct manifest *manifest,
                      struct manifest_tensor *tensor, struct error *err)
{
    const struct tree *node;
    if (!list || list->kind != TREE_LIST || list->count > MANIFEST_PARTS_MAX)
        return error_set(err, WK_EIO, "\"parts\" is missing or too long");
    tensor->parts = arena_array(&manifest->arena, list->count + 1, sizeof(*tensor->parts));
    if (!tensor->parts)
        return no_room(&manifest->arena, err);
    int64_t at = 0, total = manifest_count(tensor);
    tree_each(node, list) {
        struct manifest_part *part = &tensor->parts[tensor->n_parts++];
        int rc = read_int(node, "file", manifest->n_files - 1, &part->file, err);
        if (!rc)
            rc = read_number(node, "start", total, &part->start, err);
        if (!rc)
            rc = read_number(node, "count", total - part->start, &part->count, err);
        if (!rc)
            rc = read_crc(node, &part->crc, err);
        if (!rc && part->start != at)
            rc = error_set(err, WK_EIO, "a part starts at %lld instead of %lld",
                           (long long)part->start, (long long)at);
        if (rc)
            return rc;
        at += part->count;
    }
    if (at != total)
        return error_set(err, WK_EIO, "its parts have %lld of %lld elements", (long long)at,
                         (long long)total);
    return 0;
}

static int read_shape(const struct tree *list, struct manifest_tensor *tensor, struct error *err)
{
    const struct tree *node;
    int64_t left = INT64_MAX / 8;
    if (!list || list->kind != TREE_LIST || list->count > MANIFEST_DIMS_MAX)
        return error_set(err, WK_EIO, "\"shape\" is missing or too long");
    tree_each(node, list) {
        int64_t size;
        if (tree_read_i64(node, &size, err) || size < 0 || size > left)
            return error_set(err, WK_EIO, "its shape is out of range");
        if (size)
            left /= size;
        tensor->shape[tensor->dims++] = size;
    }
    return 0;
}

static int read_dtype(const struct tree *node, enum wk_dtype *ret, struct error *err)
{
    const char *text;
    int rc = read_text(node, "dtype", &text, err);
    if (rc)
        return rc;
#define X(id, bytes, name)                                                                         \
    if (strcmp(text, name) == 0) {                                                                 \
        *ret = WK_##id;                                                                            \
        return 0;                                                                                  \
    }
    WK_DTYPE_LIST(X)
#undef X
    return error_set(err, WK_EIO, "\"%.16s\" is no element type", text);
}

static int by_name(const void *a, const void *b)
{
    return strcmp(((const struct manifest_tensor *)a)->name,
                  ((const struct manifest_tensor *)b)->name);
}

static int read_tensors(const struct tree *list, struct manifest *manifest, struct error *err)
{
    const struct tree *node;
    if (!list || list->kind != TREE_LIST || list->count > TENSORS_MAX)
        return error_set(err, WK_EIO, "\"tensors\" is missing or too long");
    manifest->tensors = arena_array(&manifest->arena, list->count + 1, sizeof(*manifest->tensors));
    if (!manifest->tensors)
        return no_room(&manifest->arena, err);
    tree_each(node, list) {
        struct manifest_tensor *tensor = &manifest->tensors[manifest->n_tensors++];
        int rc = read_text(node, "name", &tensor->name, err);
        if (!rc)
            rc = read_dtype(node, &tensor->dtype, err);
        if (!rc)
            rc = read_shape(tree_get(node, "shape"), tensor, err);
        if (!rc)
            rc = read_parts(tree_get(node, "parts"), manifest, tensor, err);
        if (rc) {
            error_wrap(err, "tensor %d", manifest->n_tensors - 1);
            return rc;
        }
    }
    size_t count = (size_t)manifest->n_tensors;
    qsort(manifest->tensors, count, sizeof(*manifest->tensors), by_name);
    for (size_t i = 1; i < count; i++)
        if (by_name(&manifest->tensors[i - 1], &manifest->tensors[i]) == 0)
            return error_set(err, WK_EIO, "two tensors are called %.80s",
                             manifest->tensors[i].name);
    return 0;
}

/* An object's text again, or NULL for null. */
static int read_model(const struct tree *node, struct arena *arena, const char **ret,
                      struct error *err)
{
    struct buf text = {0};
    *ret = NULL;
    if (node->kind == TREE_NULL)
        return 0;
    if (node->kind != TREE_MAP)
        return error_set(err, WK_EIO, "one of \"models\" is no object");
    int rc = tree_write_json(node, TREE_COMPACT, &text, err);
    if (!rc)
        *ret = arena_strdup(arena, buf_cstr(&text));
    bool full = buf_failed(&text);
    buf_fini(&text);
    if (rc)
        return full ? error_set(err, WK_ENOMEM, "no memory for the text of a model")
                    : error_recode(err, WK_EIO);
    return *ret ? 0 : no_room(arena, err);
}

/* Missing in manifests from before this field existed. */
static int read_models(const struct tree *list, struct manifest *manifest, struct error *err)
{
    const struct tree *node;
    const char **models;
    int rc;
    if (!list)
        return 0;
    if (list->kind != TREE_LIST || list->count > MANIFEST_MODELS_MAX)
        return error_set(err, WK_EIO, "\"models\" is no list or too long");
    manifest->models = models = arena_array(&manifest->arena, list->count + 1, sizeof(*models));
    if (!models)
        return no_room(&manifest->arena, err);
    tree_each(node, list) {
        rc = read_model(node, &manifest->arena, &models[manifest->n_models++], err);
        if (rc)
            return rc;
    }
    return 0;
}

static int read_head(const struct tree *root, struct manifest *manifest, struct error *err)
{
    const char *format;
    const struct tree *mesh = tree_get(root, "mesh");
    int64_t version = 0, generation = 0;
    int rc = read_text(root, "format", &format, err);
    if (!rc && strcmp(format, format_name) != 0)
        rc = error_set(err, WK_EIO, "it is no manifest of a checkpoint");
    if (!rc)
        rc = read_number(root, "version", INT64_MAX, &version, err);
    if (!rc && version != VERSION)
        rc = error_set(err, WK_EIO, "it is of version %lld, this is %d", (long long)version,
                       VERSION);
    if (!rc)
        rc = read_number(root, "step", INT64_MAX, &manifest->step, err);
    if (!rc)
        rc = read_number(root, "generation", INT64_MAX, &generation, err);
    if (!rc)
        rc = read_int(root, "world", 1 << 24, &manifest->world, err);
    if (!rc)
        rc = read_number(root, "wall_ms", INT64_MAX, &manifest->wall_ms, err);
    if (!rc)
        rc = read_text(root, "strategy", &manifest->strategy, err);
    if (!rc)
        rc = read_int(mesh, "dp", 1 << 24, &manifest->mesh_dp, err);
    if (!rc)
        rc = read_int(mesh, "tp", 1 << 24, &manifest->mesh_tp, err);
    if (!rc)
        rc = read_int(mesh, "pp", 1 << 24, &manifest->mesh_pp, err);
    if (!rc)
        rc = read_int(mesh, "cp", 1 << 24, &manifest->mesh_cp, err);
    manifest->generation = (uint64_t)generation;
    return rc;
}

/* Manifests had no digest of their own once. */
static int check_seal(const struct tree *root, const char *text, size_t size, struct error *err)
{
    uint32_t crc;
    if (!tree_get(root, "crc32c"))
        return 0;
    int rc = read_crc(root, &crc, err);
    if (!rc && (size < SEAL_BYTES || crc32c(0, text, size - SEAL_BYTES) != crc))
        rc = error_set(err, WK_EIO, "it is damaged: the digest differs");
    return rc;
}

int manifest_parse(const char *text, size_t size, struct manifest *ret, struct error *err)
{
    struct manifest manifest = {0};
    arena_init(&manifest.arena, (size_t)MANIFEST_MAX_BYTES * 8);
    struct tree_input input = {
        .name = "manifest.json",
        .text = text,
        .size = size,
        .limits = {MANIFEST_MAX_BYTES, 8, (size_t)TENSORS_MAX * 32},
    };
    struct tree *root;
    int rc = 0;
    if (tree_parse_json(&input, &manifest.arena, &root, err))
        rc = file_unparsed(&manifest.arena, err);
    if (!rc)
        rc = check_seal(root, text, size, err);
    if (!rc)
        rc = read_head(root, &manifest, err);
    if (!rc)
        rc = read_models(tree_get(root, "models"), &manifest, err);
    if (!rc)
        rc = read_files(tree_get(root, "files"), &manifest, err);
    if (!rc)
        rc = read_tensors(tree_get(root, "tensors"), &manifest, err);
    if (rc) {
        manifest_fini(&manifest);
        return rc;
    }
    *ret = manifest;
    return 0;
}

void manifest_fini(struct manifest *manifest)
{
    arena_fini(&manifest->arena);
    *manifest = (struct manifest){0};
}

const struct manifest_tensor *manifest_find(const struct manifest *manifest, const char *name)
{
    struct manifest_tensor key = {.name = name};
    if (!manifest->n_tensors)
        return NULL;
    return bsearch(&key, manifest->tensors, (size_t)manifest->n_tensors, sizeof(key), by_name);
}
