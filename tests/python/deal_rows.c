/* What libworker's loader deals, for test_sampler.py to compare with the package's. Each line of
 * standard input is "count batch seed drop_last world rank position batches"; for each global batch
 * a line follows: its position, its samples, the position after it, and this rank's samples. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <worker/data.h>

#include "libworker/data/loader.h"

struct wanted {
    int64_t count, batch, position;
    uint64_t seed;
    int drop_last, world, rank, batches;
};

static int number_of(void *arg, int64_t sample, int64_t epoch, uint64_t seed, void *const *fields)
{
    (void)arg;
    (void)epoch;
    (void)seed;
    *(int64_t *)fields[0] = sample;
    return 0;
}

static void print_batch(const struct wk_batch *batch, int64_t next)
{
    printf("%" PRId64 " %" PRId64 " %" PRId64, batch->position, batch->global_samples, next);
    const int64_t *samples = batch->tensors[0].data;
    for (int64_t i = 0; i < batch->samples; i++)
        printf(" %" PRId64, samples[i]);
    printf("\n");
}

static int deal(const struct wanted *w)
{
    const struct wk_field fields[] = {{"number", WK_I64, 0, {0}, false, 0}};
    const struct wk_row_options rows = {
        .count = w->count, .fields = fields, .n_fields = 1, .read = number_of};
    struct wk_source *source = NULL;
    struct wk_loader *loader = NULL;
    struct wk_batch batch;
    struct error err = {0};
    int rc = source_rows(&rows, &source, &err);
    struct wk_loader_options options = {
        .source = source, .batch = w->batch, .seed = w->seed, .drop_last = w->drop_last != 0};
    if (!rc)
        rc = loader_new(&options, &loader, &err);
    if (!rc)
        rc = loader_seek(loader, w->position);
    for (int i = 0; i < w->batches && !rc; i++) {
        rc = loader_next(loader, &(struct loader_place){w->rank, w->world}, &batch, &err) != 1;
        if (!rc)
            print_batch(&batch, wk_loader_position(loader));
    }
    wk_loader_free(loader);
    wk_source_free(source);
    return rc;
}

int main(void)
{
    struct wanted w;
    while (scanf("%" SCNd64 "%" SCNd64 "%" SCNu64 "%d%d%d%" SCNd64 "%d", &w.count, &w.batch,
                 &w.seed, &w.drop_last, &w.world, &w.rank, &w.position, &w.batches) == 8)
        if (deal(&w))
            return 1;
    return 0;
}
