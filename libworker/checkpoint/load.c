#include "libworker/checkpoint/load.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <worker/error.h>

#include "common/base/crc32c.h"
#include "libworker/checkpoint/file.h"
#include "libworker/checkpoint/list.h"
#include "libworker/checkpoint/manifest.h"
#include "libworker/checkpoint/safetensors.h"
#include "libworker/device/reach.h"

static const char state_file[] = "state.json";

/* One file of a checkpoint, opened and its header checked. */
struct shard {
    int fd;
    bool parsed;
    struct safetensors tensors;
};

struct load {
    int folder;
    struct manifest manifest;
    struct shard *shards; /* [manifest.n_files] */
};

/* A folder without a manifest; perhaps the folder of all checkpoints was named. */
static int refuse_folder(const char *path, struct error *err)
{
    int64_t *steps, newest;
    int count;
    if (checkpoint_list(path, &steps, &count, NULL) || !count)
        return error_set(err, WK_ENOTFOUND, "it has no manifest.json, so it was never finished");
    newest = steps[count - 1];
    free(steps);
    return error_set(err, WK_ENOTFOUND,
                     "it is a folder of checkpoints, not one of them: name one, such as "
                     "step-%08lld, or \"latest\" with this folder as checkpoint.dir",
                     (long long)newest);
}

static int open_manifest(struct load *load, const char *path, struct error *err)
{
    load->folder = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (load->folder < 0 && (errno == ENOENT || errno == ENOTDIR))
        return error_set(err, WK_ENOTFOUND, "there is no folder");
    if (load->folder < 0)
        return file_unreadable(err, errno, "its folder");
    if (faccessat(load->folder, "manifest.json", F_OK, AT_EACCESS) && errno == ENOENT)
        return refuse_folder(path, err);
    char *text;
    size_t size;
    int rc = file_read(load->folder, "manifest.json", MANIFEST_MAX_BYTES, &text, &size, err);
    if (rc)
        return rc;
    rc = manifest_parse(text, size, &load->manifest, err);
    free(text);
    if (rc) {
        (void)error_wrap(err, "manifest.json");
        return rc;
    }
    load->shards = calloc((size_t)load->manifest.n_files + 1, sizeof(*load->shards));
    if (!load->shards)
        return error_set(err, WK_ENOMEM, "no memory to load it");
    for (int i = 0; i < load->manifest.n_files; i++)
        load->shards[i].fd = -1;
    return 0;
}

static int read_header(const struct manifest_file *file, struct shard *shard, bool parse,
                       struct error *err)
{
    size_t size = (size_t)file->header_bytes;
    if (size > SAFETENSORS_HEADER_MAX_BYTES || (parse && size < 8))
        return error_set(err, WK_EIO, "a header of %zu bytes", size);
    char *header = malloc(size + 1);
    if (!header)
        return error_set(err, WK_ENOMEM, "no memory for its header");
    int rc = file_read_at(shard->fd, header, size, 0, err);
    if (!rc && crc32c(0, header, size) != file->crc)
        rc = error_set(err, WK_EIO, "it is damaged: the digest differs");
    if (!rc && parse) {
        rc = safetensors_parse(header, size, file->bytes, &shard->tensors, err);
        shard->parsed = !rc;
    }
    free(header);
    return rc;
}

static int open_shard(struct load *load, int index, struct error *err)
{
    const struct manifest_file *file = &load->manifest.files[index];
    struct shard *shard = &load->shards[index];
    uint64_t bytes;
    int rc = file_open(load->folder, file->name, &shard->fd, &bytes, err);
    if (rc)
        return rc == WK_ENOTFOUND ? error_set(err, WK_EIO, "%s is missing", file->name) : rc;
    if (bytes != file->bytes)
        rc = error_set(err, WK_EIO, "it has %llu bytes instead of %llu", (unsigned long long)bytes,
                       (unsigned long long)file->bytes);
    else
        rc = read_header(file, shard, file->header_bytes != file->bytes, err);
    if (rc)
        (void)error_wrap(err, "%s", file->name);
    return rc;
}

/* Elements [first, first + count) of a tensor, and where they go. */
struct wanted {
    int64_t first, count;
    char *data;
    struct queue *queue; /* of the device that data is memory of, or NULL */
};

/* The first element in the file of part `index`: a shard has one run of a tensor. */
static int64_t run_start(const struct manifest_tensor *tensor, int index)
{
    while (index > 0 && tensor->parts[index - 1].file == tensor->parts[index].file)
        index--;
    return tensor->parts[index].start;
}

/* What is wanted of one part, which is read and checked whole. */
static int read_part(struct load *load, const struct manifest_tensor *tensor, int index,
                     const struct wanted *wanted, struct error *err)
{
    const struct manifest_part *part = &tensor->parts[index];
    const struct shard *shard = &load->shards[part->file];
    const struct safetensors_entry *entry =
        shard->parsed ? safetensors_find(&shard->tensors, tensor->name) : NULL;
    int64_t element = (int64_t)wk_dtype_bytes(tensor->dtype);
    int64_t skip = (part->start - run_start(tensor, index)) * element;
    size_t bytes = (size_t)(part->count * element);
    if (!entry || entry->dtype != tensor->dtype || (uint64_t)skip + bytes > entry->bytes)
        return error_set(err, WK_EIO, "%s does not match the manifest",
                         load->manifest.files[part->file].name);
    int64_t from = part->start > wanted->first ? part->start : wanted->first;
    int64_t end = wanted->first + wanted->count, to = part->start + part->count;
    to = to < end ? to : end;
    bool in_place = to - from == part->count && reach_is_direct(wanted->queue);
    char *ret = wanted->data + (from - wanted->first) * element;
    char *into = in_place ? ret : malloc(bytes);
    if (!into)
        return error_set(err, WK_ENOMEM, "no memory for a part of %zu bytes", bytes);
    int rc = file_read_at(shard->fd, into, bytes, entry->offset + (uint64_t)skip, err);
    if (!rc && crc32c(0, into, bytes) != part->crc)
        rc = error_set(err, WK_EIO, "it is damaged: the digest differs");
    if (!rc && !in_place)
        rc = reach_write(wanted->queue, ret, into + (from - part->start) * element,
                         (size_t)((to - from) * element), err);
    if (!in_place)
        free(into);
    return rc;
}

static int load_tensor(struct load *load, const struct manifest_tensor *tensor,
                       const struct wanted *wanted, struct error *err)
{
    int rc = 0;
    for (int i = 0; i < tensor->n_parts && !rc; i++) {
        const struct manifest_part *part = &tensor->parts[i];
        if (part->start >= wanted->first + wanted->count ||
            part->start + part->count <= wanted->first)
            continue;
        rc = read_part(load, tensor, i, wanted, err);
    }
    if (rc)
        (void)error_wrap(err, "tensor %s", tensor->name);
    return rc;
}

static const struct manifest_tensor *
match(const struct manifest *manifest, const struct checkpoint_tensor *tensor, struct error *err)
{
    const struct manifest_tensor *found = manifest_find(manifest, tensor->name);
    if (!found) {
        error_set(err, WK_EMISMATCH, "it has no tensor %s", tensor->name);
        return NULL;
    }
    if (found->dtype != tensor->dtype || found->dims != tensor->dims ||
        memcmp(found->shape, tensor->shape, (size_t)tensor->dims * sizeof(int64_t)) != 0 ||
        (size_t)tensor->first + tensor->bytes / wk_dtype_bytes(found->dtype) >
            (size_t)manifest_count(found)) {
        error_set(err, WK_EMISMATCH, "its tensor %s has another shape or type", tensor->name);
        return NULL;
    }
    return found;
}

static int load_tensors(struct load *load, const struct checkpoint_tensor *tensors, int n_tensors,
                        struct error *err)
{
    if (load->manifest.n_tensors != n_tensors)
        return error_set(err, WK_EMISMATCH, "it has %d tensors, this training has %d",
                         load->manifest.n_tensors, n_tensors);
    for (int i = 0; i < n_tensors; i++) {
        const struct manifest_tensor *found = match(&load->manifest, &tensors[i], err);
        if (!found)
            return WK_EMISMATCH;
        int64_t count = (int64_t)(tensors[i].bytes / wk_dtype_bytes(found->dtype));
        struct wanted wanted = {tensors[i].first, count, tensors[i].data, tensors[i].queue};
        int rc = load_tensor(load, found, &wanted, err);
        if (rc)
            return rc;
    }
    return 0;
}

static bool is_listed(const struct manifest *manifest, const char *name, size_t size, uint32_t crc)
{
    bool found = false;
    for (int i = 0; i < manifest->n_files && !found; i++)
        found = strcmp(manifest->files[i].name, name) == 0 && manifest->files[i].bytes == size &&
                manifest->files[i].crc == crc;
    return found;
}

static int load_numbers(struct load *load, struct train_numbers *ret, struct error *err)
{
    struct train_numbers numbers;
    char *text;
    size_t size;
    int rc = file_read(load->folder, state_file, NUMBERS_MAX_BYTES, &text, &size, err);
    if (rc)
        return rc;
    rc = numbers_parse(text, size, &numbers, err);
    if (!rc && numbers.step != load->manifest.step)
        rc = error_set(err, WK_EIO, "it is of step %lld, the manifest of %lld",
                       (long long)numbers.step, (long long)load->manifest.step);
    if (!rc && !is_listed(&load->manifest, state_file, size, crc32c(0, text, size)))
        rc = error_set(err, WK_EIO, "it is damaged: the digest differs");
    free(text);
    if (rc) {
        (void)error_wrap(err, state_file);
        return rc;
    }
    *ret = numbers;
    return 0;
}

static int load_open(struct load *load, const char *path, struct error *err)
{
    *load = (struct load){.folder = -1};
    int rc = open_manifest(load, path, err);
    for (int i = 0; i < load->manifest.n_files && !rc; i++)
        rc = open_shard(load, i, err);
    return rc;
}

static void load_close(struct load *load)
{
    for (int i = 0; load->shards && i < load->manifest.n_files; i++) {
        if (load->shards[i].fd >= 0)
            close(load->shards[i].fd);
        if (load->shards[i].parsed)
            safetensors_fini(&load->shards[i].tensors);
    }
    free(load->shards);
    if (load->folder >= 0)
        close(load->folder);
    manifest_fini(&load->manifest);
}

int checkpoint_load(const char *path, const struct checkpoint_tensor *tensors, int n_tensors,
                    struct train_numbers *ret_numbers, struct error *err)
{
    struct load load;
    struct train_numbers numbers = {0};
    int rc = load_open(&load, path, err);
    if (!rc)
        rc = load_numbers(&load, &numbers, err);
    if (!rc)
        rc = load_tensors(&load, tensors, n_tensors, err);
    load_close(&load);
    if (rc) {
        (void)error_wrap(err, "checkpoint %s", path);
        return rc;
    }
    *ret_numbers = numbers;
    return 0;
}

int checkpoint_numbers(const char *path, struct train_numbers *ret, struct error *err)
{
    struct load load = {.folder = -1};
    int rc = open_manifest(&load, path, err);
    if (!rc)
        rc = load_numbers(&load, ret, err);
    load_close(&load);
    if (rc)
        (void)error_wrap(err, "checkpoint %s", path);
    return rc;
}

static int verify_tensors(struct load *load, struct error *err)
{
    for (int i = 0; i < load->manifest.n_tensors; i++) {
        const struct manifest_tensor *tensor = &load->manifest.tensors[i];
        size_t bytes = (size_t)manifest_count(tensor) * wk_dtype_bytes(tensor->dtype);
        uint64_t held = manifest_bytes(&load->manifest);
        if (bytes > held)
            return error_set(err, WK_EIO, "tensor %s is larger than all files", tensor->name);
        void *data = malloc(bytes + 1);
        if (!data)
            return error_set(err, WK_ENOMEM, "no memory for tensor %s", tensor->name);
        struct wanted wanted = {.count = manifest_count(tensor), .data = data};
        int rc = load_tensor(load, tensor, &wanted, err);
        free(data);
        if (rc)
            return rc;
    }
    return 0;
}

int checkpoint_verify(const char *path, struct error *err)
{
    struct load load;
    struct train_numbers numbers;
    int rc = load_open(&load, path, err);
    if (!rc)
        rc = load_numbers(&load, &numbers, err);
    if (!rc)
        rc = verify_tensors(&load, err);
    load_close(&load);
    if (rc)
        (void)error_wrap(err, "checkpoint %s", path);
    return rc;
}

struct checkpoint_reader {
    struct load load;
};

int checkpoint_open(const char *path, struct checkpoint_reader **ret, struct error *err)
{
    struct checkpoint_reader *reader = calloc(1, sizeof(*reader));
    if (!reader)
        return error_set(err, WK_ENOMEM, "no memory to read %.300s", path);
    int rc = load_open(&reader->load, path, err);
    if (rc) {
        checkpoint_close(reader);
        (void)error_wrap(err, "checkpoint %.300s", path);
        return rc;
    }
    *ret = reader;
    return 0;
}

void checkpoint_close(struct checkpoint_reader *reader)
{
    if (!reader)
        return;
    load_close(&reader->load);
    free(reader);
}

const struct manifest *checkpoint_manifest(const struct checkpoint_reader *reader)
{
    return &reader->load.manifest;
}

int checkpoint_read(struct checkpoint_reader *reader, struct checkpoint_range range, void *ret,
                    struct error *err)
{
    const struct manifest_tensor *tensor = &reader->load.manifest.tensors[range.tensor];
    int64_t count = manifest_count(tensor);
    if (range.first < 0 || range.count < 0 || range.first > count ||
        range.count > count - range.first)
        return error_set(err, WK_EINVAL, "tensor %s has %lld elements", tensor->name,
                         (long long)count);
    struct wanted wanted = {.first = range.first, .count = range.count, .data = ret};
    return load_tensor(&reader->load, tensor, &wanted, err);
}
