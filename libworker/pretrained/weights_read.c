/* Reading weights, from one file or many. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <worker/error.h>

#include "common/base/str.h"
#include "common/base/tree.h"
#include "libworker/checkpoint/file.h"
#include "libworker/pretrained/weights.h"

static const char one_file[] = "model.safetensors";
static const char index_file[] = "model.safetensors.index.json";

static int parse_header(struct weights_file *file, uint64_t file_bytes, struct error *err)
{
    unsigned char first[8];
    size_t size;
    if (file_bytes < sizeof(first))
        return error_set(err, WK_EIO, "%llu bytes are no safetensors file",
                         (unsigned long long)file_bytes);
    int rc = file_read_at(file->fd, first, sizeof(first), 0, err);
    if (!rc)
        rc = safetensors_header_bytes(first, file_bytes, &size, err);
    if (rc)
        return rc;
    char *header = malloc(size);
    if (!header)
        return error_set(err, WK_ENOMEM, "no memory for a header of %zu bytes", size);
    rc = file_read_at(file->fd, header, size, 0, err);
    if (!rc)
        rc = safetensors_parse(header, size, file_bytes, &file->tensors, err);
    file->parsed = !rc;
    free(header);
    return rc;
}

/* `folder` may be AT_FDCWD. */
static int open_file(int folder, const char *name, struct weights_file *file, struct error *err)
{
    struct stat st;
    if (str_copy(file->name, sizeof(file->name), name))
        return error_set(err, WK_EIO, "the file name %.80s… is too long", name);
    file->fd = openat(folder, name, O_RDONLY | O_CLOEXEC);
    if (file->fd < 0 || fstat(file->fd, &st))
        return error_set(err, errno == ENOENT ? WK_ENOTFOUND : WK_EIO, "file %s: %s", name,
                         strerror(errno));
    int rc = S_ISREG(st.st_mode) ? parse_header(file, (uint64_t)st.st_size, err)
                                 : error_set(err, WK_EIO, "it is no file");
    if (rc)
        (void)error_wrap(err, "file %s", name);
    return rc;
}

static int add_file(struct weights *weights, int folder, const char *name, struct error *err)
{
    if (weights->n_files == WEIGHTS_FILES_MAX)
        return error_set(err, WK_EIO, "more than %d files", WEIGHTS_FILES_MAX);
    struct weights_file *file = &weights->files[weights->n_files];
    *file = (struct weights_file){.fd = -1};
    weights->n_files++;
    return open_file(folder, name, file, err);
}

static int file_number(const struct weights *weights, const char *name)
{
    for (int i = weights->n_files - 1; i >= 0; i--)
        if (strcmp(weights->files[i].name, name) == 0)
            return i;
    return -1;
}

/* Open every file that the index names, and find each tensor in its file. */
static int follow_index(struct weights *weights, int folder, const struct tree *root,
                        struct error *err)
{
    const struct tree *map = tree_get(root, "weight_map"), *node;
    if (!map || map->kind != TREE_MAP)
        return error_set(err, WK_EIO, "it has no weight_map");
    tree_each(node, map) {
        const char *name;
        if (tree_read_string(node, &name, err))
            return error_recode(err, WK_EIO);
        if (!*name || *name == '.' || strchr(name, '/'))
            return error_set(err, WK_EIO, "tensor %.80s is in a file called %.80s", node->key,
                             name);
        int file = file_number(weights, name), rc = 0;
        if (file < 0) {
            file = weights->n_files;
            rc = add_file(weights, folder, name, err);
        }
        if (rc)
            return rc;
        if (!safetensors_find(&weights->files[file].tensors, node->key))
            return error_set(err, WK_EIO, "tensor %.80s is not in file %.80s", node->key, name);
    }
    return 0;
}

static int open_index(struct weights *weights, int folder, struct error *err)
{
    char *text;
    size_t size;
    int rc = file_read(folder, index_file, WEIGHTS_INDEX_MAX_BYTES, &text, &size, err);
    if (rc)
        return rc;
    struct arena arena;
    arena_init(&arena, (size_t)WEIGHTS_INDEX_MAX_BYTES * 8);
    struct tree *root;
    struct tree_input input = {
        .text = text,
        .size = size,
        .limits = {WEIGHTS_INDEX_MAX_BYTES, 4, (size_t)SAFETENSORS_TENSORS_MAX * 2},
    };
    rc = tree_parse_json(&input, &arena, &root, err) ? file_unparsed(&arena, err) : 0;
    if (!rc)
        rc = follow_index(weights, folder, root, err);
    if (rc)
        (void)error_wrap(err, "%s", index_file);
    arena_fini(&arena);
    free(text);
    return rc;
}

static int by_name(const void *a, const void *b)
{
    const struct weights_entry *x = a, *y = b;
    return strcmp(x->tensor->name, y->tensor->name);
}

static int list_entries(struct weights *weights, struct error *err)
{
    size_t total = 0;
    for (int i = 0; i < weights->n_files; i++)
        total += (size_t)weights->files[i].tensors.count;
    weights->entries = calloc(total + 1, sizeof(*weights->entries));
    weights->raw = malloc((size_t)WEIGHTS_CHUNK * sizeof(float));
    if (!weights->entries || !weights->raw)
        return error_set(err, WK_ENOMEM, "no memory for %zu tensors", total);
    for (int i = 0; i < weights->n_files; i++)
        for (int j = 0; j < weights->files[i].tensors.count; j++)
            weights->entries[weights->n_entries++] =
                (struct weights_entry){&weights->files[i].tensors.entries[j], i};
    qsort(weights->entries, total, sizeof(*weights->entries), by_name);
    for (int i = 1; i < weights->n_entries; i++)
        if (by_name(&weights->entries[i - 1], &weights->entries[i]) == 0)
            return error_set(err, WK_EIO, "tensor %.80s is there twice",
                             weights->entries[i].tensor->name);
    return 0;
}

static int open_path(struct weights *weights, struct error *err)
{
    int folder = open(weights->path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (folder < 0)
        return add_file(weights, AT_FDCWD, weights->path, err);
    int rc;
    if (faccessat(folder, index_file, F_OK, 0) == 0)
        rc = open_index(weights, folder, err);
    else if (faccessat(folder, one_file, F_OK, 0) == 0)
        rc = add_file(weights, folder, one_file, err);
    else
        rc = error_set(err, WK_ENOTFOUND, "the folder has neither %s nor %s", one_file, index_file);
    close(folder);
    return rc;
}

int weights_open(const char *path, struct weights *ret, struct error *err)
{
    struct weights weights = {0};
    weights.files = calloc(WEIGHTS_FILES_MAX, sizeof(*weights.files));
    int rc = 0;
    if (!weights.files)
        rc = error_set(err, WK_ENOMEM, "no memory for files");
    else if (str_copy(weights.path, sizeof(weights.path), path))
        rc = error_set(err, WK_EINVAL, "the path is too long");
    if (!rc)
        rc = open_path(&weights, err);
    if (!rc)
        rc = list_entries(&weights, err);
    if (rc) {
        (void)error_wrap(err, "weights %.300s", path);
        weights_close(&weights);
        return rc;
    }
    *ret = weights;
    return 0;
}

void weights_close(struct weights *weights)
{
    for (int i = 0; i < weights->n_files; i++) {
        if (weights->files[i].fd >= 0)
            close(weights->files[i].fd);
        if (weights->files[i].parsed)
            safetensors_fini(&weights->files[i].tensors);
    }
    free(weights->files);
    free(weights->entries);
    free(weights->raw);
    *weights = (struct weights){0};
}

const struct weights_entry *weights_find(const struct weights *weights, const char *name)
{
    const struct safetensors_entry wanted = {.name = name};
    const struct weights_entry key = {.tensor = &wanted};
    return bsearch(&key, weights->entries, (size_t)weights->n_entries, sizeof(key), by_name);
}

static int format_of(const struct safetensors_entry *tensor, enum wk_format *ret, struct error *err)
{
    if (tensor->dtype == WK_F32)
        *ret = WK_FORMAT_F32;
    else if (tensor->dtype == WK_F16)
        *ret = WK_FORMAT_F16;
    else if (tensor->dtype == WK_BF16)
        *ret = WK_FORMAT_BF16;
    else
        return error_set(err, WK_EUNSUPPORTED,
                         "tensor %.80s is of type %s; f32, f16 and bf16 can be read", tensor->name,
                         wk_dtype_name(tensor->dtype));
    return 0;
}

int weights_read(const struct weights *weights, const struct weights_entry *entry,
                 struct weights_range range, float *ret, struct error *err)
{
    const struct safetensors_entry *tensor = entry->tensor;
    enum wk_format format = WK_FORMAT_F32;
    int rc = format_of(tensor, &format, err);
    if (rc)
        return rc;
    size_t element = wk_format_bytes(format);
    uint64_t count = tensor->bytes / element;
    if (range.first > count || range.count > count - range.first)
        return error_set(err, WK_EIO, "tensor %.80s has %llu elements", tensor->name,
                         (unsigned long long)count);
    for (size_t done = 0; done < range.count && !rc;) {
        size_t n = range.count - done < WEIGHTS_CHUNK ? range.count - done : WEIGHTS_CHUNK;
        uint64_t at = tensor->offset + (range.first + done) * element;
        rc = file_read_at(weights->files[entry->file].fd, weights->raw, n * element, at, err);
        if (!rc)
            rc = wk_widen(ret + done, format, weights->raw, n);
        done += n;
    }
    if (rc)
        (void)error_wrap(err, "tensor %.80s of %s", tensor->name, weights->path);
    return rc;
}
