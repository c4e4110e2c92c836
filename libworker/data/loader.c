#include "libworker/data/loader.h"

#include <stdlib.h>

#include "libworker/data/ahead.h"
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
    ahead_fini(loader);
    free(loader->counts);
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

/* A global batch without its values. */
struct dealt {
    int64_t position, global; /* samples */
    int64_t first, count;     /* of them, this rank's share */
    struct share_size all, own;
    int64_t next; /* position of the batch after it */
};

/* The part that drop_last omits is skipped with the last batch, so that the cursor of an epoch's
 * end is its multiple. */
static int deal_at(struct wk_loader *loader, const struct loader_place *place, int64_t position,
                   struct dealt *ret, struct error *err)
{
    int64_t at = position % loader->samples, left = dealt_per_epoch(loader) - at;
    int64_t global = left < loader->options.batch ? left : loader->options.batch;
    *ret = (struct dealt){.position = position, .global = global};
    ret->next = position + (left == global ? loader->samples - at : global);
    split_share(global, place->rank, place->world, &ret->first, &ret->count);
    int rc = share_measure(loader, position, global, &ret->all, err);
    if (rc)
        return rc;
    return share_measure(loader, position + ret->first, ret->count, &ret->own, err);
}

static struct share_range range_of(const struct dealt *dealt)
{
    return (struct share_range){dealt->position + dealt->first, dealt->count, dealt->all.length};
}

static struct wk_batch batch_of(const struct dealt *dealt)
{
    return (struct wk_batch){
        .samples = dealt->count,
        .length = dealt->all.length,
        .position = dealt->position,
        .global_samples = dealt->global,
        .denominator = dealt->all.divisor > 0 ? dealt->all.divisor : 1,
        .first = dealt->first,
    };
}

int loader_next(struct wk_loader *loader, const struct loader_place *place, struct wk_batch *ret,
                struct error *err)
{
    struct dealt dealt;
    /* A position from another batch size may be in the part that drop_last omits. */
    if (loader->cursor % loader->samples >= dealt_per_epoch(loader))
        loader->cursor += loader->samples - loader->cursor % loader->samples;
    if (loader_at_end(loader))
        return 0;
    int64_t left = dealt_per_epoch(loader) - loader->cursor % loader->samples;
    int rc = deal_at(loader, place, loader->cursor, &dealt, err);
    if (rc)
        return rc;
    struct share_range range = range_of(&dealt);
    rc = ahead_take(loader, &range) ? 0 : share_read(loader, &loader->arrays, &range, err);
    if (rc)
        return rc;
    int64_t batch = loader->options.batch, limit = loader->options.batches;
    loader->batches_after = (left - dealt.global + batch - 1) / batch;
    loader->cursor = dealt.position + dealt.global;
    if (limit && loader->batches_after > limit - batches_dealt(loader))
        loader->batches_after = limit - batches_dealt(loader);
    loader->cursor = dealt.next;
    *ret = batch_of(&dealt);
    share_show(loader, &loader->arrays, ret);
    loader->own = dealt.own.divisor;
    loader->last = *ret;
    return 1;
}

int64_t loader_look_begin(struct wk_loader *loader)
{
    ahead_forget(loader);
    return loader->cursor;
}

int loader_look(struct wk_loader *loader, const struct loader_place *place, bool values,
                int64_t *position, struct loader_share *ret, struct error *err)
{
    struct dealt dealt;
    int rc = deal_at(loader, place, *position, &dealt, err);
    if (rc)
        return rc;
    struct share_range range = range_of(&dealt);
    struct loader_arrays *arrays = NULL;
    rc = values ? ahead_read(loader, &range, &arrays, err) : 0;
    if (rc)
        return rc;
    *position = dealt.next;
    *ret = (struct loader_share){batch_of(&dealt), dealt.own.divisor};
    if (arrays)
        share_show(loader, arrays, &ret->batch);
    return 0;
}

/* Over the last batch and those after it, also past the end of an epoch. A wrong length is reported
 * when its batch is dealt. */
static double mean_of(struct wk_loader *loader, int batches)
{
    int64_t position = loader->last.position;
    double sum = 0;
    for (int i = 0; i < batches; i++) {
        struct dealt dealt;
        (void)deal_at(loader, &(struct loader_place){0, 1}, position, &dealt, NULL);
        sum += dealt.all.divisor;
        position = dealt.next;
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

bool loader_counts_samples(const struct wk_loader *loader)
{
    const struct rows *rows = loader->options.source->rows;
    return rows && !rows->by_length;
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
