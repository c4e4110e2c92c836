#include "libworker/step/counts.h"

#include <stdlib.h>
#include <string.h>

#include "libworker/step/break.h"
#include "libworker/step/context.h"

enum { COUNTS_MAX = (int)NUMBERS_UNITS_MAX * (int)MODEL_LOSSES_MAX };

static int number_of(const struct unit *unit)
{
    return unit_number(unit) - 1;
}

/* Whether the loader's batches have an array of this name. */
static bool has_input(const struct wk_loader *loader, const char *name)
{
    const struct rows *rows = loader->options.source->rows;
    if (!rows)
        return !strcmp(name, "tokens") || !strcmp(name, "targets");
    for (int i = 0; i < rows->given.n_fields; i++)
        if (!strcmp(rows->fields[i].name, name))
            return true;
    return false;
}

/* True if the loader's batches can be counted for the model. *values: what is in them decides. Of a
 * text every target counts. */
static bool can_count(const struct wk_loader *loader, const struct wk_model *model, bool *values)
{
    const struct count_ops *ops = model->ops->count;
    bool reads = false;
    for (int i = 0; ops && i < ops->losses(model); i++) {
        struct count_input input = ops->input(model, i);
        if (input.name && !has_input(loader, input.name))
            return false;
        reads = reads || (input.name && (loader->options.source->rows || !input.targets));
    }
    *values = *values || (ops && reads);
    return ops;
}

/* Whether values have to be read for some model; has[units]: for which there is a count. */
static bool needs_values(const struct wk_context *ctx, const struct wk_loader *loader, bool *has)
{
    const struct unit *unit;
    bool values = false;
    units_each(unit, ctx)
        has[number_of(unit)] = can_count(loader, unit->model, &values);
    return values;
}

static void add_share(const struct wk_context *ctx, struct counts *counts,
                      const struct wk_batch *share)
{
    const struct unit *unit;
    units_each(unit, ctx) {
        int i = number_of(unit);
        if (counts->has[i])
            unit->model->ops->count->add(unit->model, share, counts->divisors[i]);
    }
}

/* A whole global batch, of which only sizes are known. */
static struct wk_batch whole_of(const struct wk_batch *batch)
{
    return (struct wk_batch){.samples = batch->global_samples,
                             .length = batch->length,
                             .denominator = batch->denominator};
}

/* The batch of this window that was dealt, and those after it. */
static int add_window(struct wk_context *ctx, struct wk_loader *loader, int window, bool values,
                      struct error *err)
{
    struct loader_place place = {ctx->group.rank, ctx->group.world};
    struct loader_share share = {loader->last, loader->own};
    int64_t position = loader_look_begin(loader);
    for (int i = 0; i < window; i++) {
        int rc = i ? loader_look(loader, &place, values, &position, &share, err) : 0;
        if (rc)
            return rc;
        struct wk_batch part = values ? share.batch : whole_of(&share.batch);
        if (values)
            part.denominator = share.own;
        add_share(ctx, loader->counts, &part);
    }
    return 0;
}

/* The sums of all ranks: divisors[n] of each unit that has some. */
static int sum_ranks(const struct wk_context *ctx, struct counts *counts)
{
    double sums[COUNTS_MAX];
    size_t n = 0, at = 0;
    for (int i = 0; i < ctx->prepared.n_units; i++) {
        const struct wk_model *model = ctx->prepared.units[i].model;
        size_t losses = counts->has[i] ? (size_t)model->ops->count->losses(model) : 0;
        memcpy(sums + n, counts->divisors[i], losses * sizeof(*sums));
        n += losses;
    }
    int rc = wk_all_reduce(ctx->group.comm, sums, n, WK_F64, WK_SUM, NULL);
    for (int i = 0; i < ctx->prepared.n_units && !rc; i++) {
        const struct wk_model *model = ctx->prepared.units[i].model;
        size_t losses = counts->has[i] ? (size_t)model->ops->count->losses(model) : 0;
        memcpy(counts->divisors[i], sums + at, losses * sizeof(*sums));
        at += losses;
    }
    return rc;
}

bool counts_window(struct wk_context *ctx, struct wk_loader *loader, int window)
{
    struct error err = {0};
    if (!loader->counts)
        loader->counts = malloc(sizeof(*loader->counts));
    if (!loader->counts) {
        (void)error_set(&err, WK_ENOMEM, "no memory to count a batch");
        (void)context_fail(ctx, &err);
        return false;
    }
    *loader->counts = (struct counts){.has = {false}};
    bool values = needs_values(ctx, loader, loader->counts->has);
    if (add_window(ctx, loader, window, values, &err)) {
        (void)context_fail(ctx, &err);
        return false;
    }
    int rc = values && ctx->group.world > 1 ? sum_ranks(ctx, loader->counts) : 0;
    if (rc)
        (void)context_break(ctx, rc);
    for (int i = 0; i < ctx->prepared.n_units; i++)
        for (int k = 0; k < MODEL_LOSSES_MAX; k++)
            loader->counts->divisors[i][k] /= window;
    return !rc;
}

int counts_held(const struct wk_context *ctx, const struct wk_loader *loader, int window)
{
    bool has[NUMBERS_UNITS_MAX];
    return needs_values(ctx, loader, has) && !loader->options.evaluation ? window : 1;
}

int counts_own(struct unit *unit, const struct wk_batch *batches, int n)
{
    const struct count_ops *ops = unit->model->ops->count;
    struct wk_context *ctx = unit->ctx;
    double sums[MODEL_LOSSES_MAX] = {0};
    for (int i = 0; i < n; i++) {
        struct wk_batch share = batches[i];
        share.denominator = 0; /* the program's is not of this share */
        ops->add(unit->model, &share, sums);
    }
    int losses = ops->losses(unit->model);
    int rc = 0;
    if (ctx->group.world > 1)
        rc = wk_all_reduce(ctx->group.comm, sums, (size_t)losses, WK_F64, WK_SUM, NULL);
    if (rc)
        return rc;
    for (int i = 0; i < losses; i++)
        unit->counts.divisors[i] = sums[i] / n;
    unit->counts.batches = unit->counts.left = n;
    return 0;
}

const double *counts_of(const struct unit *unit, const struct wk_loader *dealt)
{
    if (unit->counts.left > 0)
        return unit->counts.divisors;
    if (!dealt || !dealt->counts || !dealt->counts->has[number_of(unit)])
        return NULL;
    return dealt->counts->divisors[number_of(unit)];
}
