/* Gradients of a sharded model: from where the model adds to them to the shards. */
#include <string.h>

#include "libworker/optim/clip.h"
#include "libworker/parallel/sharded_low.h"
#include "libworker/parallel/sharded_unit.h"

static int sum_column(struct sharded *s, int unit, struct wk_work **ret_work)
{
    if (s->low.params)
        return sharded_low_column(s, unit, ret_work);
    return wk_all_reduce(s->groups.column, sharded_row(s, s->grads, unit), s->plan.units[unit].row,
                         WK_F32, WK_SUM, ret_work);
}

/* The sum over this replica has to be there before that over the replicas can start. */
static void advance(struct sharded *s, int unit)
{
    struct sharded_unit *u = &s->units[unit];
    if (!u->reduced || u->advanced)
        return;
    int rc = wk_wait(u->reduce);
    u->reduce = NULL;
    u->advanced = true;
    s->low.wild = s->low.wild || u->wild;
    if (!rc && s->groups.column && !s->failure)
        rc = sum_column(s, unit, &u->reduce);
    if (rc)
        sharded_note(s, rc);
}

static void collect(struct sharded *s, int unit)
{
    struct sharded_unit *u = &s->units[unit];
    const struct shard_unit *place = &s->plan.units[unit];
    if (!u->reduced || u->collected)
        return;
    advance(s, unit);
    int rc = wk_wait(u->reduce);
    u->reduce = NULL;
    u->collected = true;
    s->reduces--;
    s->low.wild = s->low.wild || u->wild;
    if (rc)
        sharded_note(s, rc);
    if (s->options.sharding == SHARDING_ZERO1)
        return;
    const float *sum = sharded_row(s, s->grads, unit);
    float *own = s->own_grads + place->shard;
    if (s->low.grads)
        sharded_low_collect(s, unit);
    for (size_t i = 0; i < place->row && !s->low.grads; i++)
        own[i] += sum[i];
    sharded_drop(s, &s->grad_pages, unit);
    if (s->low.grads)
        sharded_low_drop_grads(s, unit);
}

static int sum_floats(struct sharded *s, int unit, struct wk_work **ret_work)
{
    const struct shard_unit *place = &s->plan.units[unit];
    return wk_reduce_scatter(s->comm, s->grads + place->place, sharded_row(s, s->grads, unit),
                             place->row, WK_F32, WK_SUM, ret_work);
}

static void start_reduce(struct sharded *s, int unit)
{
    struct sharded_unit *u = &s->units[unit];
    for (int i = s->plan.n_units - 1;
         i > unit && s->reduces >= SHARDED_REDUCES_MAX && s->options.sharding != SHARDING_ZERO1;
         i--)
        collect(s, i);
    if (s->groups.column && unit + 1 < s->plan.n_units)
        advance(s, unit + 1);
    u->reduced = true;
    s->reduces++;
    if (s->failure)
        return;
    int rc =
        s->low.params ? sharded_low_reduce(s, unit, &u->reduce) : sum_floats(s, unit, &u->reduce);
    if (rc)
        sharded_note(s, rc);
}

void sharded_unit_done(struct sharded *s, int unit)
{
    float *grads = s->grads + s->plan.units[unit].place;
    if (s->factor != 1)
        s->model->kernels->scale(grads, s->factor, sharded_elements(s, unit));
    if (s->low.grads)
        sharded_low_take(s, unit);
    if (s->reducing)
        start_reduce(s, unit);
}

void sharded_rescale(struct sharded *s, float factor)
{
    if (s->options.sharding == SHARDING_ZERO1 && !s->low.grads)
        s->model->kernels->scale(s->grads, factor, s->plan.padded);
}

static void start_due(struct sharded *s)
{
    while (s->next >= 0 && s->units[s->next].missing == 0)
        sharded_unit_done(s, s->next--);
}

void sharded_begin(struct sharded *s, struct wk_comm *comm, bool last)
{
    sharded_use(s, comm);
    s->passing = true;
    s->last = last;
    s->reducing = last || s->options.sharding != SHARDING_ZERO1;
    s->following = s->reducing || s->low.grads;
    if (!s->following)
        return;
    s->next = s->plan.n_units - 1;
    s->reduces = 0;
    memset(s->ready, 0, (size_t)s->model->n_params * sizeof(*s->ready));
    for (int i = 0; i < s->plan.n_units; i++) {
        s->units[i].missing = s->units[i].n_params;
        s->units[i].reduced = s->units[i].advanced = s->units[i].collected = false;
    }
}

void sharded_ready(struct sharded *s, int index)
{
    if (!s->passing || !s->following || s->ready[index])
        return;
    s->ready[index] = true;
    s->units[s->unit_of[index]].missing--;
    /* Under hooks the end of a block is what counts: gathers and sums then follow each other in the
     * same order on every rank. */
    if (!s->hooked)
        start_due(s);
}

void sharded_flush(struct sharded *s)
{
    while (s->following && s->next >= 0)
        sharded_unit_done(s, s->next--);
    if (s->last && !s->failure) {
        int rc =
            wk_all_reduce(s->whole, s->extras, s->options.extras, WK_F32, WK_SUM, &s->extras_work);
        if (rc)
            sharded_note(s, rc);
    }
    if (s->hooked)
        sharded_release_all(s);
}

/* ZERO1 sums in place: rows move together, each to a place at or before its own. */
static void compact_rows(struct sharded *s)
{
    for (int i = 0; i < s->plan.n_units; i++) {
        const struct shard_unit *unit = &s->plan.units[i];
        memmove(s->own_grads + unit->shard, sharded_row(s, s->grads, i), unit->row * sizeof(float));
    }
}

int sharded_finish(struct sharded *s)
{
    if (!s->passing)
        return s->failure;
    for (int i = s->plan.n_units - 1; i >= 0 && s->reducing; i--)
        collect(s, i);
    int rc = wk_wait(s->extras_work);
    s->extras_work = NULL;
    if (rc)
        sharded_note(s, rc);
    if (s->reducing && s->options.sharding == SHARDING_ZERO1 && !s->failure && s->low.grads)
        sharded_low_compact(s);
    else if (s->reducing && s->options.sharding == SHARDING_ZERO1 && !s->failure)
        compact_rows(s);
    if (s->last && s->low.params && !s->failure && (rc = sharded_low_agree(s)) != 0)
        sharded_note(s, rc);
    s->passing = s->reducing = s->following = s->last = false;
    return s->failure;
}

bool sharded_finite(const struct sharded *s)
{
    return !s->low.wild;
}

void sharded_drain(struct sharded *s)
{
    for (int i = 0; i < s->plan.n_units; i++) {
        (void)wk_wait(s->units[i].gather);
        (void)wk_wait(s->units[i].reduce);
        s->units[i].gather = s->units[i].reduce = NULL;
        s->units[i].reduced = s->units[i].advanced = s->units[i].collected = false;
    }
    (void)wk_wait(s->extras_work);
    s->extras_work = NULL;
    s->passing = s->reducing = s->following = s->last = false;
    s->reduces = 0;
    s->next = -1;
}

int sharded_squares(struct sharded *s, double *ret)
{
    double squares = s->low.grads
                         ? sharded_low_squares(s, 0, s->plan.shard)
                         : clip_sum_squares(s->model->kernels, s->own_grads, s->plan.shard);
    int rc = wk_all_reduce(s->comm, &squares, 1, WK_F64, WK_SUM, NULL);
    if (!rc)
        *ret = squares;
    return rc;
}

void sharded_clear(struct sharded *s)
{
    memset(s->extras, 0, s->options.extras * sizeof(*s->extras));
    sharded_low_clear(s);
    if (s->options.sharding == SHARDING_ZERO1 && !sharded_low_own(s)) {
        memset(s->grads, 0, s->plan.padded * sizeof(float));
        return;
    }
    if (s->own_grads != s->grads && !s->low.grads)
        memset(s->own_grads, 0, s->plan.shard * sizeof(float));
    pages_drop(&s->grad_pages, 0, s->plan.padded);
}
