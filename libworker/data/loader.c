#include "libworker/data/loader.h"

#include <stdlib.h>

#include "libworker/data/share.h"
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
    } bounds[] = {{"length", o->length, o->source->rows ? 0 : 1},
                  {"batch", o->batch, 1},
                  {"epochs", o->epochs, 0},
                  {"batches", o->batches, 0}};
    for (size_t i = 0; i < sizeof(bounds) / sizeof(bounds[0]); i++)
        if (bounds[i].value < bounds[i].min)
            return error_set(err, WK_EINVAL, "%s is %lld: it must be at least %lld", bounds[i].name,
                             (long long)bounds[i].value, (long long)bounds[i].min);
    if (o->source->rows && o->length)
        return error_set(err, WK_EINVAL,
                         "length is %lld: it must be 0 for a source of rows, whose fields say how "
                         "long a sample is",
                         (long long)o->length);
    return 0;
}

static int64_t samples_of(const struct wk_loader_options *options)
{
    const struct wk_source *source = options->source;
    return source->rows ? source->count : (source->count - 1) / options->length;
}

static int64_t length_of(const struct wk_loader_options *options)
{
    const struct rows *rows = options->source->rows;
    return !rows ? options->length : rows->length ? rows->length : 1;
}

int loader_new(const struct wk_loader_options *options, struct wk_loader **ret, struct error *err)
{
    int rc = check_options(options, err);
    if (rc)
        return rc;
    int64_t samples = samples_of(options);
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
    loader->length = length_of(options);
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
    free(loader->arrays.memory);
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

int loader_next(struct wk_loader *loader, const struct loader_place *place, struct wk_batch *ret,
                struct error *err)
{
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
    struct share_size all, own;
    int rc = share_measure(loader, position, global, &all, err);
    if (!rc)
        rc = share_measure(loader, position + first, count, &own, err);
    if (!rc)
        rc = share_read(loader, position + first, count, all.length, err);
    if (rc)
        return rc;
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
        .samples = count,
        .length = all.length,
        .position = position,
        .global_samples = global,
        .denominator = all.divisor > 0 ? all.divisor : 1,
        .first = first,
    };
    share_show(loader, ret);
    loader->own = own.divisor;
    loader->last = *ret;
    return 1;
}

/* Over the last batch and those after it, also past the end of an epoch. A wrong length is reported
 * when its batch is dealt. */
static double mean_of(struct wk_loader *loader, int batches)
{
    int64_t per_epoch = dealt_per_epoch(loader), position = loader->last.position;
    double sum = 0;
    for (int i = 0; i < batches; i++) {
        struct share_size size;
        int64_t at = position % loader->samples, left = per_epoch - at;
        int64_t global = left < loader->options.batch ? left : loader->options.batch;
        (void)share_measure(loader, position, global, &size, NULL);
        sum += size.divisor;
        position += left == global ? loader->samples - at : global;
    }
    return sum > 0 ? sum / batches : 1;
}

double loader_weigh(struct wk_loader *loader, int window, bool begins)
{
    if (begins)
        loader->mean = mean_of(loader, window);
    loader->last.denominator = loader->mean;
    return loader->mean;
}

/* By more than the arrays: a share of no samples may have none, and rows may have no tokens. */
bool loader_dealt(const struct wk_loader *loader, const struct wk_batch *batch)
{
    const struct wk_batch *last = &loader->last;
    return last->global_samples && batch->tokens == last->tokens &&
           batch->tensors == last->tensors && batch->samples == last->samples &&
           batch->position == last->position && batch->global_samples == last->global_samples &&
           !(batch->denominator < last->denominator || batch->denominator > last->denominator);
}

size_t loader_sample_bytes(const struct wk_loader *loader)
{
    return share_sample_bytes(loader);
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
