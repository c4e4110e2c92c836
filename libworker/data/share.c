#include "libworker/data/share.h"

#include <stdlib.h>

enum { TOKENS, TARGETS, TEXT_ARRAYS, ARRAY_ALIGN = 64 };

static int arrays_of(const struct wk_loader *loader)
{
    const struct rows *rows = loader->options.source->rows;
    return rows ? rows->given.n_fields : TEXT_ARRAYS;
}

/* Bytes of a sample in one array of a batch of this length. */
static size_t row_bytes(const struct wk_loader *loader, int array, int64_t length)
{
    const struct rows *rows = loader->options.source->rows;
    return rows ? field_bytes(&rows->fields[array], length) : (size_t)length * sizeof(int32_t);
}

size_t share_sample_bytes(const struct wk_loader *loader)
{
    size_t bytes = 0;
    for (int i = 0; i < arrays_of(loader); i++)
        bytes += row_bytes(loader, i, loader->length);
    return bytes;
}

static int64_t sample_at(struct wk_loader *loader, int64_t position)
{
    int64_t epoch = position / loader->samples, index = position % loader->samples;
    if (loader->options.sequential)
        return index;
    if (epoch != loader->order_epoch) {
        permutation_init(&loader->order, (uint64_t)loader->samples, loader->options.seed,
                         (uint64_t)epoch);
        loader->order_epoch = epoch;
    }
    return (int64_t)permutation_at(&loader->order, (uint64_t)index);
}

int share_measure(struct wk_loader *loader, int64_t position, int64_t count, struct share_size *ret,
                  struct error *err)
{
    const struct rows *rows = loader->options.source->rows;
    bool by_length = !rows || rows->by_length;
    int64_t longest = 1;
    double sum = 0;
    int rc = 0;
    if (!rows || !rows->given.length_of) {
        longest = loader->length;
        sum = (double)count * (double)loader->length;
    }
    for (int64_t i = 0; i < count && rows && rows->given.length_of && !rc; i++) {
        int64_t length = 0;
        rc = rows_length_of(rows, sample_at(loader, position + i), &length, err);
        longest = length > longest ? length : longest;
        sum += (double)length;
    }
    *ret = (struct share_size){longest, by_length ? sum : (double)count};
    return rc;
}

/* Contents are not kept. */
static int reserve(const struct wk_loader *loader, struct loader_arrays *arrays, int64_t samples,
                   struct error *err)
{
    size_t bytes = 0, sample = share_sample_bytes(loader);
    if (samples <= arrays->capacity)
        return 0;
    free(arrays->memory);
    *arrays = (struct loader_arrays){.memory = NULL};
    if ((size_t)samples < (PTRDIFF_MAX - (size_t)WK_FIELDS_MAX * ARRAY_ALIGN) / sample)
        bytes = (size_t)samples * sample + (size_t)WK_FIELDS_MAX * ARRAY_ALIGN;
    bytes -= bytes % ARRAY_ALIGN;
    unsigned char *at = bytes ? aligned_alloc(ARRAY_ALIGN, bytes) : NULL;
    if (!at)
        return error_set(err, WK_ENOMEM, "no memory for a batch of %lld samples",
                         (long long)samples);
    arrays->memory = at;
    arrays->capacity = samples;
    for (int i = 0; i < arrays_of(loader); i++) {
        size_t own = (size_t)samples * row_bytes(loader, i, loader->length);
        arrays->data[i] = at;
        at += (own + ARRAY_ALIGN - 1) / ARRAY_ALIGN * ARRAY_ALIGN;
    }
    return 0;
}

static void read_text(const struct wk_loader *loader, const struct loader_arrays *arrays,
                      int64_t sample, int64_t to)
{
    int64_t length = loader->length, first = sample * length;
    int32_t *tokens = arrays->data[TOKENS], *targets = arrays->data[TARGETS];
    source_read(loader->options.source, first, length, tokens + to * length);
    source_read(loader->options.source, first + 1, length, targets + to * length);
}

static int read_rows(const struct rows *rows, const struct loader_arrays *arrays, struct row_at *at,
                     int64_t to, struct error *err)
{
    void *fields[WK_FIELDS_MAX];
    for (int i = 0; i < rows->given.n_fields; i++)
        fields[i] = (unsigned char *)arrays->data[i] +
                    (size_t)to * field_bytes(&rows->fields[i], at->length);
    int rc = rows_length_of(rows, at->sample, &at->own, err);
    return rc ? rc : rows_read(rows, at, fields, err);
}

int share_read(struct wk_loader *loader, struct loader_arrays *arrays,
               const struct share_range *range, struct error *err)
{
    const struct rows *rows = loader->options.source->rows;
    int rc = reserve(loader, arrays, range->count, err);
    for (int64_t i = 0; i < range->count && !rc; i++) {
        int64_t position = range->position + i, sample = sample_at(loader, position);
        struct row_at at = {.sample = sample,
                            .epoch = position / loader->samples,
                            .seed = loader->options.seed,
                            .length = range->length};
        if (rows)
            rc = read_rows(rows, arrays, &at, i, err);
        else
            read_text(loader, arrays, sample, i);
    }
    return rc;
}

void share_show(const struct wk_loader *loader, struct loader_arrays *arrays,
                struct wk_batch *batch)
{
    const struct rows *rows = loader->options.source->rows;
    int tokens = rows ? rows->tokens : TOKENS, targets = rows ? rows->targets : TARGETS;
    batch->tokens = tokens < 0 ? NULL : arrays->data[tokens];
    batch->targets = targets < 0 ? NULL : arrays->data[targets];
    for (int i = 0; rows && i < rows->given.n_fields; i++)
        arrays->tensors[i] = (struct wk_batch_tensor){
            .name = rows->fields[i].name,
            .data = arrays->data[i],
            .type = rows->fields[i].type,
            .elements = field_elements(&rows->fields[i], batch->length),
        };
    batch->tensors = rows ? arrays->tensors : NULL;
    batch->n_tensors = rows ? rows->given.n_fields : 0;
}
