/* A checkpoint's weights to transformers' files. */
#include <stdlib.h>
#include <string.h>

#include "common/base/str.h"
#include "libworker/checkpoint/folder.h"
#include "libworker/checkpoint/load.h"
#include "libworker/checkpoint/manifest.h"
#include "libworker/pretrained/config.h"
#include "libworker/pretrained/family.h"
#include "libworker/pretrained/pretrained.h"
#include "libworker/pretrained/weights.h"

enum { PREFIX_MAX = 16 };

struct export_names {
    char text[PRETRAINED_NAME_MAX];
};

struct merge {
    struct checkpoint_reader *reader;
    const struct manifest *manifest;
    int number;                     /* of the model; 0: the only one */
    char prefix[PREFIX_MAX];        /* of its tensors in the checkpoint */
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
    if (rc)
        return rc;
    return wk_widen(ret, format, merge->raw, range.count);
}

/* Prefix of the names of model `number`'s tensors (from step/state.c); 0: of the only one. */
static const char *model_prefix(int number, char ret[PREFIX_MAX])
{
    (void)(number ? str_printf(ret, PREFIX_MAX, "%d.model.", number)
                  : str_copy(ret, PREFIX_MAX, "model."));
    return ret;
}

/* Tensors of each model in a checkpoint; [0] of the one that is there alone and has no number. */
struct models {
    int tensors[NUMBERS_UNITS_MAX + 1];
    int count;
};

/* "model.x" is the 0th's, "2.model.x" the second's; -1: an optimizer's. */
static int model_of(const char *name)
{
    for (int i = 0; i <= NUMBERS_UNITS_MAX; i++) {
        char prefix[PREFIX_MAX];
        if (str_starts(name, model_prefix(i, prefix)))
            return i;
    }
    return -1;
}

static struct models count_models(const struct manifest *manifest)
{
    struct models models = {0};
    for (int i = 0; i < manifest->n_tensors; i++) {
        int number = model_of(manifest->tensors[i].name);
        if (number >= 0 && !models.tensors[number]++)
            models.count++;
    }
    return models;
}

/* "1 of 4 tensors, 2 of 6" */
static int refuse_model(const struct models *models, int wanted, struct error *err)
{
    char list[NUMBERS_UNITS_MAX * 32] = "";
    for (int i = 1; i <= NUMBERS_UNITS_MAX; i++) {
        size_t used = strlen(list);
        if (models->tensors[i])
            (void)str_printf(list + used, sizeof(list) - used, "%s%d of %d%s", used ? ", " : "", i,
                             models->tensors[i], used ? "" : " tensors");
    }
    if (!models->count)
        return error_set(err, WK_EIO, "it has no weights of a model");
    if (!*list)
        return error_set(err, WK_EINVAL, "it has one model, not %d", wanted);
    int rc = wanted ? error_set(err, WK_EINVAL, "it has no model %d: %s", wanted, list)
                    : error_set(err, WK_EINVAL, "it has several models: %s", list);
    error_hint(err, "--model N chooses one, by its place in the program's wk_prepare");
    return rc;
}

static int choose_model(struct merge *merge, int wanted, struct error *err)
{
    struct models models = count_models(merge->manifest);
    bool alone = models.tensors[0] && wanted <= 1;
    if (!alone && !models.tensors[wanted])
        return refuse_model(&models, wanted, err);
    merge->number = alone ? 0 : wanted;
    (void)model_prefix(merge->number, merge->prefix);
    return 0;
}

static bool holds(const struct merge *merge, const char *name)
{
    char full[CHECKPOINT_NAME_MAX];
    return !str_printf(full, sizeof(full), "%s%s", merge->prefix, name) &&
           manifest_find(merge->manifest, full);
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
    bool is_gpt = holds(merge, "wte.weight") && holds(merge, "h.0.attn.c_attn.weight");
    for (int i = 0; i < manifest->n_tensors; i++) {
        const struct manifest_tensor *tensor = &manifest->tensors[i];
        if (!str_starts(tensor->name, merge->prefix))
            continue;
        int at = merge->n_tensors++;
        merge->of[at] = i;
        merge->tensors[at] = (struct weights_tensor){
            .name = family_name(is_gpt ? family_of_gpt() : NULL,
                                tensor->name + strlen(merge->prefix), merge->names[at].text),
            .dims = tensor->dims,
        };
        memcpy(merge->tensors[at].shape, tensor->shape, sizeof(tensor->shape));
    }
    return 0;
}

/* The checkpoint's description of the chosen model, for weights in `format`; nothing without one.
 */
static int told_config(const struct merge *merge, enum wk_format format, struct buf *out,
                       struct error *err)
{
    const struct manifest *manifest = merge->manifest;
    struct model_config config;
    int index = merge->number ? merge->number - 1 : 0;
    const char *text = index < manifest->n_models ? manifest->models[index] : NULL;
    if (!text)
        return 0;
    int rc = model_config_parse(text, strlen(text), &config, err);
    if (rc) {
        (void)error_wrap(err, "what its manifest has for model %d", index + 1);
        return rc;
    }
    rc = model_config_write(&config, format, out);
    if (rc)
        return error_set(err, rc, "no memory for config.json");
    return 0;
}

int pretrained_export(const struct pretrained_export *what, bool *ret_has_config, struct error *err)
{
    struct merge merge = {0};
    struct buf config = {0};
    int rc = checkpoint_open(what->checkpoint, &merge.reader, err);
    if (!rc) {
        merge.manifest = checkpoint_manifest(merge.reader);
        rc = choose_model(&merge, what->model, err);
        if (rc)
            (void)error_wrap(err, "checkpoint %.300s", what->checkpoint);
    }
    if (!rc)
        rc = list_tensors(&merge, err);
    if (!rc && !what->config)
        rc = told_config(&merge, what->options.format, &config, err);
    bool told = config.size > 0;
    if (!rc) {
        struct weights_write write = {
            .path = what->path,
            .tensors = merge.tensors,
            .n_tensors = merge.n_tensors,
            .format = what->options.format,
            .file_bytes = what->options.file_bytes,
            .config = told ? buf_cstr(&config) : what->config,
            .read = read_tensor,
            .arg = &merge,
        };
        rc = weights_write(&write, err);
    }
    *ret_has_config = told || what->config;
    buf_fini(&config);
    checkpoint_close(merge.reader);
    free(merge.tensors);
    free(merge.names);
    free(merge.of);
    free(merge.raw);
    return rc;
}
