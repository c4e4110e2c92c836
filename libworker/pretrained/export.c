/* A checkpoint's weights to transformers' files. */
#include <stdlib.h>
#include <string.h>

#include "common/base/str.h"
#include "libworker/checkpoint/folder.h"
#include "libworker/checkpoint/manifest.h"
#include "libworker/pretrained/pretrained.h"
#include "libworker/pretrained/weights.h"

const char *pretrained_name(bool is_gpt, const char *name, char ret[PRETRAINED_NAME_MAX])
{
    (void)str_printf(ret, PRETRAINED_NAME_MAX, "%s%s", is_gpt ? "transformer." : "", name);
    return ret;
}

static const char prefix[] = "model.";

struct export_names {
    char text[PRETRAINED_NAME_MAX];
};

struct merge {
    struct checkpoint_reader *reader;
    const struct manifest *manifest;
    struct weights_tensor *tensors; /* the model's */
    struct export_names *names;
    int *of; /* which of the manifest's each is */
    int n_tensors;
    void *raw; /* WEIGHTS_CHUNK elements */
};

static int format_of(enum wk_dtype dtype, enum wk_format *ret)
{
    *ret = dtype == WK_F16 ? WK_FORMAT_F16 : dtype == WK_BF16 ? WK_FORMAT_BF16 : WK_FORMAT_F32;
    return dtype == WK_F32 || dtype == WK_F16 || dtype == WK_BF16 ? 0 : WK_EUNSUPPORTED;
}

static int read_tensor(void *arg, int index, struct weights_range range, float *ret,
                       struct error *err)
{
    struct merge *merge = arg;
    int number = merge->of[index];
    enum wk_format format;
    int rc = format_of(merge->manifest->tensors[number].dtype, &format);
    if (rc)
        return error_set(err, rc, "its type is none of f32, f16 and bf16");
    struct checkpoint_range wanted = {number, (int64_t)range.first, (int64_t)range.count};
    rc = checkpoint_read(merge->reader, wanted, merge->raw, err);
    return rc ? rc : wk_widen(ret, format, merge->raw, range.count);
}

static int list_tensors(struct merge *merge, struct error *err)
{
    const struct manifest *manifest = merge->manifest;
    size_t n = (size_t)manifest->n_tensors + 1;
    merge->tensors = calloc(n, sizeof(*merge->tensors));
    merge->names = calloc(n, sizeof(*merge->names));
    merge->of = calloc(n, sizeof(*merge->of));
    merge->raw = malloc((size_t)WEIGHTS_CHUNK * sizeof(float));
    if (!merge->tensors || !merge->names || !merge->of || !merge->raw)
        return error_set(err, WK_ENOMEM, "no memory for %zu tensors", n);
    bool is_gpt = manifest_find(manifest, "model.wte.weight") &&
                  manifest_find(manifest, "model.h.0.attn.c_attn.weight");
    for (int i = 0; i < manifest->n_tensors; i++) {
        const struct manifest_tensor *tensor = &manifest->tensors[i];
        if (!str_starts(tensor->name, prefix))
            continue;
        int at = merge->n_tensors++;
        merge->of[at] = i;
        merge->tensors[at] = (struct weights_tensor){
            .name = pretrained_name(is_gpt, tensor->name + strlen(prefix), merge->names[at].text),
            .dims = tensor->dims,
        };
        memcpy(merge->tensors[at].shape, tensor->shape, sizeof(tensor->shape));
    }
    return merge->n_tensors ? 0 : error_set(err, WK_EIO, "it holds no weights of a model");
}

int pretrained_export(const struct pretrained_export *what, struct error *err)
{
    struct merge merge = {0};
    int rc = checkpoint_open(what->checkpoint, &merge.reader, err);
    if (!rc) {
        merge.manifest = checkpoint_manifest(merge.reader);
        rc = list_tensors(&merge, err);
    }
    if (!rc) {
        struct weights_write write = {
            .path = what->path,
            .tensors = merge.tensors,
            .n_tensors = merge.n_tensors,
            .format = what->options.format,
            .file_bytes = what->options.file_bytes,
            .config = what->config,
            .read = read_tensor,
            .arg = &merge,
        };
        rc = weights_write(&write, err);
    }
    checkpoint_close(merge.reader);
    free(merge.tensors);
    free(merge.names);
    free(merge.of);
    free(merge.raw);
    return rc;
}
