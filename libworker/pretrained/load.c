/* Transformers' files to a model. */
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/base/buf.h"
#include "common/base/str.h"
#include "libworker/checkpoint/file.h"
#include "libworker/models/kind.h"
#include "libworker/pretrained/config.h"
#include "libworker/pretrained/family.h"
#include "libworker/pretrained/pretrained.h"
#include "libworker/pretrained/weights.h"

static int read_config(const char *path, struct model_config *ret, struct error *err)
{
    int folder = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (folder < 0)
        return error_set(err, WK_ENOTFOUND, "there is no such folder");
    char *text;
    size_t size;
    int rc = file_read(folder, "config.json", CONFIG_MAX_BYTES, &text, &size, err);
    close(folder);
    if (rc)
        return rc;
    rc = model_config_parse(text, size, ret, err);
    free(text);
    if (rc)
        (void)error_wrap(err, "config.json");
    return rc;
}

int pretrained_model(const char *path, struct wk_model **ret, struct error *err)
{
    struct model_config config;
    int rc = read_config(path, &config, err);
    if (!rc) {
        rc =
            config.family->is_gpt ? wk_gpt_new(&config.gpt, ret) : wk_llama_new(&config.llama, ret);
        if (rc)
            (void)error_set(err, rc, "config.json: its numbers make no model: %s", error_kept());
    }
    if (rc)
        (void)error_wrap(err, "model %.300s", path);
    return rc;
}

/* Open files, and the place in them of each parameter, then of each buffer. */
struct source {
    struct weights weights;
    const struct weights_entry **of; /* [stored_count], as they were when it was opened */
};

static int stored_count(const struct wk_model *model)
{
    return model->n_params + model->buffers.n;
}

static const struct param *stored_at(const struct wk_model *model, int i)
{
    return i < model->n_params ? &model->params[i] : &model->buffers.list[i - model->n_params];
}

static void source_free(void *arg)
{
    struct source *source = arg;
    weights_close(&source->weights);
    free(source->of);
    free(source);
}

/* Files of a model without its head leave out the prefix that the others have. */
static const struct weights_entry *find_tensor(const struct weights *weights, const char *name)
{
    char longer[PRETRAINED_NAME_MAX];
    const struct weights_entry *found = weights_find(weights, name);
    if (!found)
        found = weights_find(weights, family_name(family_of_gpt(), name, longer));
    if (!found && str_starts(name, "model."))
        found = weights_find(weights, name + strlen("model."));
    return found;
}

static int source_fill(void *arg, const struct param *param, int index, struct error *err)
{
    const struct source *source = arg;
    (void)index; /* it may have changed since (wk_model_freeze) */
    return weights_read(&source->weights, find_tensor(&source->weights, param->name),
                        (struct weights_range){0, param->count}, param->data, err);
}

static void write_shape(struct buf *out, const int64_t *shape, int dims)
{
    (void)buf_char(out, '[');
    for (int i = 0; i < dims; i++)
        (void)buf_printf(out, "%s%lld", i ? ", " : "", (long long)shape[i]);
    (void)buf_char(out, ']');
}

static int check_entry(const struct param *param, const struct safetensors_entry *tensor,
                       struct error *err)
{
    if (tensor->dtype != WK_F32 && tensor->dtype != WK_F16 && tensor->dtype != WK_BF16)
        return error_set(err, WK_EUNSUPPORTED,
                         "tensor %.80s is of type %s; f32, f16 and bf16 can be read", tensor->name,
                         wk_dtype_name(tensor->dtype));
    if (tensor->dims == param->dims &&
        memcmp(tensor->shape, param->shape, (size_t)param->dims * sizeof(int64_t)) == 0)
        return 0;
    struct buf shapes = {0};
    write_shape(&shapes, tensor->shape, tensor->dims);
    (void)buf_str(&shapes, ", the model's is ");
    write_shape(&shapes, param->shape, param->dims);
    int rc = error_set(err, WK_EMISMATCH, "tensor %.80s is %s", tensor->name, buf_cstr(&shapes));
    buf_fini(&shapes);
    return rc;
}

static bool ends(const char *text, const char *end)
{
    size_t a = strlen(text), b = strlen(end);
    return a >= b && strcmp(text + a - b, end) == 0;
}

/* True for computed masks and tables, which older files contain besides parameters. */
static bool is_computed(const char *name)
{
    return ends(name, ".attn.bias") || ends(name, ".attn.masked_bias") ||
           ends(name, ".rotary_emb.inv_freq");
}

/* A head in a file for a tied model must be its embedding, or training would go on from another
 * model than was saved. */
static int check_head(const struct source *source, const struct weights_entry *head,
                      const struct param *table, struct error *err)
{
    const struct weights_entry *embedding = find_tensor(&source->weights, table->name);
    int rc = check_entry(table, head->tensor, err);
    if (rc)
        return rc;
    float *a = malloc((size_t)WEIGHTS_CHUNK * sizeof(*a)), *b = malloc(WEIGHTS_CHUNK * sizeof(*b));
    if (!a || !b)
        rc = error_set(err, WK_ENOMEM, "no memory to compare the head");
    for (size_t done = 0; done < table->count && !rc;) {
        size_t left = table->count - done, n = left < WEIGHTS_CHUNK ? left : WEIGHTS_CHUNK;
        struct weights_range range = {done, n};
        rc = weights_read(&source->weights, embedding, range, a, err);
        if (!rc)
            rc = weights_read(&source->weights, head, range, b, err);
        if (!rc && memcmp(a, b, n * sizeof(*a)) != 0)
            rc = error_set(err, WK_EMISMATCH,
                           "tensor %.80s differs from %.80s; this model's head is its embedding",
                           head->tensor->name, embedding->tensor->name);
        done += n;
    }
    free(a);
    free(b);
    return rc;
}

static bool is_used(const struct source *source, int count, const struct weights_entry *entry)
{
    for (int i = 0; i < count; i++)
        if (source->of[i] == entry)
            return true;
    return false;
}

static bool has_tied_head(const struct wk_model *model)
{
    const struct model_kind *kind = model_kind_of(model);
    return kind && (kind->family == FAMILY_GPT || kind->llama.tied);
}

/* The embedding of tokens, which a tied head is, too. */
static const struct param *table_of(const struct wk_model *model)
{
    bool is_gpt = model_kind_of(model)->family == FAMILY_GPT;
    const char *name = is_gpt ? "wte.weight" : "model.embed_tokens.weight";
    const struct param *table = model->params;
    while (strcmp(table->name, name) != 0)
        table++;
    return table;
}

static int check_rest(const struct source *source, const struct wk_model *model, struct error *err)
{
    enum { NAMED = 4 };
    bool tied = has_tied_head(model);
    struct buf names = {0};
    int extra = 0, rc = 0;
    for (int i = 0; i < source->weights.n_entries && !rc; i++) {
        const struct weights_entry *entry = &source->weights.entries[i];
        const char *name = entry->tensor->name;
        if (is_used(source, stored_count(model), entry) || is_computed(name))
            continue;
        if (tied && strcmp(name, "lm_head.weight") == 0)
            rc = check_head(source, entry, table_of(model), err);
        else if (extra++ < NAMED)
            (void)buf_printf(&names, "%s%.80s", extra > 1 ? ", " : "", name);
    }
    if (!rc && extra)
        rc = error_set(err, WK_EMISMATCH, "%d tensors are none of this model: %s%s", extra,
                       buf_cstr(&names), extra > NAMED ? ", …" : "");
    buf_fini(&names);
    return rc;
}

static int match(struct source *source, const struct wk_model *model, struct error *err)
{
    int count = stored_count(model);
    source->of = calloc((size_t)count, sizeof(const struct weights_entry *));
    if (!source->of)
        return error_set(err, WK_ENOMEM, "no memory for %d tensors", count);
    for (int i = 0; i < count; i++) {
        const struct param *param = stored_at(model, i);
        source->of[i] = find_tensor(&source->weights, param->name);
        if (!source->of[i])
            return error_set(err, WK_EMISMATCH, "there is no tensor %s", param->name);
        int rc = check_entry(param, source->of[i]->tensor, err);
        if (rc)
            return rc;
    }
    return check_rest(source, model, err);
}

int pretrained_load(struct wk_model *model, const char *path, struct error *err)
{
    struct source *source = calloc(1, sizeof(*source));
    if (!source)
        return error_set(err, WK_ENOMEM, "no memory for weights");
    int rc = weights_open(path, &source->weights, err);
    if (!rc) {
        rc = match(source, model, err);
        if (rc)
            (void)error_wrap(err, "weights %.300s", path);
    }
    if (rc) {
        source_free(source);
        return rc;
    }
    model_set_values(model, &(struct model_values){source_fill, source_free, source});
    return 0;
}
