/* The texts of a checkpoint, as a disk gives them back. The first byte says which: a manifest, the
 * numbers of state.json, or the header of a shard; then the text. What is refused has the code in
 * the error that is returned, since that code decides whether an older checkpoint is taken; what is
 * accepted keeps the promises that loading relies on, and reads back the same once written. */
#include <stdlib.h>
#include <string.h>

#include <worker/error.h>

#include "common/base/assert.h"
#include "libworker/checkpoint/manifest.h"
#include "libworker/checkpoint/numbers.h"
#include "libworker/checkpoint/safetensors.h"
#include "tests/fuzz/fuzz.h"

static void expect_refusal(int rc, const struct error *err)
{
    insist(rc == WK_EIO || rc == WK_EUNSUPPORTED);
    insist(rc == err->code && err->text[0]);
}

static void expect_tensor(const struct manifest *manifest, const struct manifest_tensor *tensor)
{
    int64_t at = 0, count = manifest_count(tensor);
    insist(count >= 0 && count <= INT64_MAX / (int64_t)wk_dtype_bytes(tensor->dtype));
    for (int i = 0; i < tensor->n_parts; i++) {
        const struct manifest_part *part = &tensor->parts[i];
        insist(part->file >= 0 && part->file < manifest->n_files);
        insist(part->start == at && part->count >= 0);
        at += part->count;
    }
    insist(at == count && manifest_find(manifest, tensor->name) == tensor);
}

static void read_manifest(const char *text, size_t size)
{
    struct manifest manifest, again;
    struct error err = {0};
    struct buf out = {0};
    int rc = manifest_parse(text, size, &manifest, &err);
    if (rc)
        return expect_refusal(rc, &err);
    for (int i = 0; i < manifest.n_tensors; i++)
        expect_tensor(&manifest, &manifest.tensors[i]);
    for (int i = 0; i < manifest.n_files; i++)
        insist(manifest.files[i].header_bytes <= manifest.files[i].bytes);
    insist(manifest_write(&manifest, &out) == 0);
    rc = manifest_parse(out.data, out.size, &again, &err);
    insist(rc == 0 && again.step == manifest.step && again.n_files == manifest.n_files &&
           again.n_tensors == manifest.n_tensors && again.n_models == manifest.n_models);
    manifest_fini(&again);
    buf_fini(&out);
    manifest_fini(&manifest);
}

static void read_numbers(const char *text, size_t size)
{
    struct train_numbers numbers, again;
    struct error err = {0};
    struct buf out = {0};
    int rc = numbers_parse(text, size, &numbers, &err);
    if (rc)
        return expect_refusal(rc, &err);
    insist(numbers.n_units >= 1 && numbers.n_units <= NUMBERS_UNITS_MAX);
    insist(numbers.n_loaders >= 0 && numbers.n_loaders <= NUMBERS_LOADERS_MAX);
    insist(numbers.n_schedulers >= 0 && numbers.n_schedulers <= NUMBERS_SCHEDULERS_MAX);
    insist(numbers_write(&numbers, &out) == 0);
    rc = numbers_parse(out.data, out.size, &again, &err);
    insist(rc == 0 && memcmp(&numbers, &again, sizeof(again)) == 0);
    buf_fini(&out);
}

static void read_header(const char *text, size_t size)
{
    struct safetensors tensors;
    struct error err = {0};
    const uint64_t file_bytes = (uint64_t)size + 96; /* the corpus' data */
    int rc = safetensors_parse(text, size, file_bytes, &tensors, &err);
    if (rc)
        return expect_refusal(rc, &err);
    for (int i = 0; i < tensors.count; i++) {
        const struct safetensors_entry *entry = &tensors.entries[i];
        insist(entry->offset >= size && entry->offset <= file_bytes);
        insist(entry->bytes <= file_bytes - entry->offset);
    }
    safetensors_fini(&tensors);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (!size)
        return 0;
    const char *text = (const char *)data + 1;
    if (*data == 'm')
        read_manifest(text, size - 1);
    else if (*data == 's')
        read_numbers(text, size - 1);
    else
        read_header(text, size - 1);
    return 0;
}
