#include <stdlib.h>

#include "libworker/data/loader.h"
#include "libworker/data/split.h"

static int check_options(const struct wk_loader_options *o, struct error *err)
{
    if (!o)
        return error_set(err, WK_EINVAL, "a loader's options are NULL");
    if (!o->source)
        return error_set(err, WK_EINVAL, "a loader needs a source, and it is NULL");
    const struct {
        const char *name;
        int64_t value, min;
    } bounds[] = {{"length", o->length, 1},
                  {"batch", o->batch, 1},
                  {"epochs", o->epochs, 0},
                  {"batches", o->batches, 0}};
    for (size_t i = 0; i < sizeof(bounds) / sizeof(bounds[0]); i++)
        if (bounds[i].value < bounds[i].min)
            return error_set(err, WK_EINVAL, "%s is %lld: it must be at least %lld", bounds[i].name,
                             (long long)bounds[i].value, (long long)bounds[i].min);
    return 0;
}

int loader_new(const struct wk_loader_options *options, struct wk_loader **ret, struct error *err)
{
    int rc = check_options(options, err);
    if (rc)
        return rc;
    int64_t samples = (options->source->count - 1) / options->length;
    if (samples < 1)
        return error_set(err, WK_EINVAL,
                         "%lld tokens are too few for a sample of %lld and its "
                         "successor",
                         (long long)options->source->count, (long long)options->length);
    if (options->drop_last && samples < options->batch)
        return error_set(err, WK_EINVAL, "%lld samples fill no batch of %lld", (long long)samples,
                         (long long)options->batch);
    struct wk_loader *loader = calloc(1, sizeof(*loader));
    if (!loader)
        return error_set(err, WK_ENOMEM, "no memory for a loader");
    loader->options = *options;
    loader->samples = samples;
    loader->order_epoch = -1;
    loader->batch_asked = options->batch;
    list_init(&loader->made);
    *ret = loader;
    return 0;
}

void wk_loader_free(struct wk_loader *loader)
{
    if (!loader || loader->owned_by)
        return;
    list_remove(&loader->made);
    wk_source_free(loader->opened);
    free(loader->tokens);
    free(loader);
}

/* Samples an epoch deals: all, or with drop_last those of its full batches. */
static int64_t dealt_per_epoch(const struct wk_loader *loader)
{
    int64_t samples = loader->samples;
    return loader->options.drop_last ? samples - samples % loader->options.batch : samples;
}

/* Global batches up to the cursor, as many of today's size as there would have been. */
static int64_t batches_dealt(const struct wk_loader *loader)
{
    int64_t batch = loader->options.batch;
    return loader->cursor / loader->samples * wk_loader_batches(loader) +
           (loader->cursor % loader->samples + batch - 1) / batch;
}

bool loader_at_end(const struct wk_loader *loader)
{
    const struct wk_loader_options *options = &loader->options;
    return (options->epochs && loader->cursor / loader->samples >= options->epochs) ||
           (options->batches && batches_dealt(loader) >= options->batches);
}

static int reserve_tokens(struct wk_loader *loader, int64_t samples, struct error *err)
{
    if (samples <= loader->capacity)
        return 0;
    size_t size = (size_t)samples * (size_t)loader->options.length;
    int32_t *tokens = NULL;
    if (size <= SIZE_MAX / 16)
        tokens = realloc(loader->tokens, 2 * size * sizeof(*tokens));
    if (!tokens)
        return error_set(err, WK_ENOMEM, "no memory for a batch of %lld samples",
                         (long long)samples);
    loader->tokens = tokens;
    loader->capacity = samples;
    return 0;
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

static void read_samples(struct wk_loader *loader, int64_t position, int64_t samples)
{
    int64_t length = loader->options.length;
    int32_t *targets = loader->tokens + loader->capacity * length;
    for (int64_t i = 0; i < samples; i++) {
        int64_t first = sample_at(loader, position + i) * length;
        source_read(loader->options.source, first, length, loader->tokens + i * length);
        source_read(loader->options.source, first + 1, length, targets + i * length);
    }
}

int loader_next(struct wk_loader *loader, const struct loader_place *place, struct wk_batch *ret,
                struct error *err)
{
    int64_t length = loader->options.length;
    /* A position from another batch size may be in the part that drop_last omits. */
    if (loader->cursor % loader->samples >= dealt_per_epoch(loader))
        loader->cursor += loader->samples - loader->cursor % loader->samples;
    if (loader_at_end(loader))
        return 0;
    int64_t position = loader->cursor;
    int64_t left = dealt_per_epoch(loader) - position % loader->samples;
    int64_t global = left < loader->options.batch ? left : loader->options.batch;
    int64_t first, count;
    split_share(global, place->rank, place->world, &first, &count);
    int rc = reserve_tokens(loader, count, err);
    if (rc)
        return rc;
    read_samples(loader, position + first, count);
    loader->batches_after = (left - global + loader->options.batch - 1) / loader->options.batch;
    loader->cursor = position + global;
    int64_t limit = loader->options.batches;
    if (limit && loader->batches_after > limit - batches_dealt(loader))
        loader->batches_after = limit - batches_dealt(loader);
    /* The part that drop_last omits is skipped here, so that the cursor of an epoch's end is its
     * multiple. */
    if (left == global)
        loader->cursor += loader->samples - dealt_per_epoch(loader);
    *ret = (struct wk_batch){
        .tokens = loader->tokens,
        .targets = loader->tokens ? loader->tokens + loader->capacity * length : NULL,
        .samples = count,
        .length = length,
        .position = position,
        .global_samples = global,
        .denominator = (double)global * (double)length,
    };
    loader->last = *ret;
    return 1;
}

/* Over the last batch and those after it, also past the end of an epoch. */
static double mean_of(const struct wk_loader *loader, int batches)
{
    int64_t per_epoch = dealt_per_epoch(loader), at = loader->last.position % loader->samples;
    int64_t sum = 0;
    for (int i = 0; i < batches; i++) {
        int64_t left = per_epoch - at;
        int64_t global = left < loader->options.batch ? left : loader->options.batch;
        sum += global;
        at = left == global ? 0 : at + global;
    }
    return (double)sum * (double)loader->options.length / batches;
}

double loader_weigh(struct wk_loader *loader, int window, bool begins)
{
    if (begins)
        loader->mean = mean_of(loader, window);
    loader->last.denominator = loader->mean;
    return loader->mean;
}

/* By more than the arrays: a share of no samples may have none. */
bool loader_dealt(const struct wk_loader *loader, const struct wk_batch *batch)
{
    const struct wk_batch *last = &loader->last;
    return last->global_samples && batch->tokens == last->tokens &&
           batch->samples == last->samples && batch->position == last->position &&
           batch->global_samples == last->global_samples &&
           !(batch->denominator < last->denominator || batch->denominator > last->denominator);
}

int64_t wk_loader_samples(const struct wk_loader *loader)
{
    return dealt_per_epoch(loader);
}

int64_t wk_loader_batches(const struct wk_loader *loader)
{
    return (dealt_per_epoch(loader) + loader->options.batch - 1) / loader->options.batch;
}

int64_t wk_loader_position(const struct wk_loader *loader)
{
    return loader->cursor;
}

int loader_seek(struct wk_loader *loader, int64_t position)
{
    if (position < 0)
        return WK_EINVAL;
    loader->cursor = loader->committed = position;
    return 0;
}
