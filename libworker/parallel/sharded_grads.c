#include "libworker/parallel/sharded_grads.h"

#include <math.h>
#include <string.h>

#include "common/base/assert.h"
#include "libworker/device/device.h"
#include "libworker/optim/clip.h"
#include "libworker/parallel/launches.h"
#include "libworker/parallel/sharded_low.h"
#include "libworker/parallel/sharded_params.h"
#include "libworker/parallel/sharded_slots.h"
#include "libworker/parallel/sharded_unit.h"

/* The sums of the row, once they are there, over the column. */
static int sum_column(struct sharded *s, int unit)
{
    struct sharded_unit *u = &s->units[unit];
    float *row = sharded_sum_of(s, unit);
    struct wire_call call = {.op = WIRE_SUM,
                             .in = row,
                             .out = row,
                             .count = s->plan.units[unit].row,
                             .ready = u->reduce.done};
    if (s->low.params)
        sharded_low_column(s, unit, &call);
    return wire_start(&s->sums, s->groups.column, &call, &u->reduce);
}

/* A unit's gradients, from now on, into this rank's row. */
static int sum_row(struct sharded *s, int unit)
{
    const struct shard_unit *place = &s->plan.units[unit];
    struct wire_call call = {.op = WIRE_SCATTER,
                             .in = s->grads + place->place,
                             .out = sharded_sum_of(s, unit),
                             .count = place->row,
                             .ready = event_record(s->model->queue)};
    if (s->low.params)
        sharded_low_reduce(s, unit, &call);
    return wire_start(&s->sums, s->comm, &call, &s->units[unit].reduce);
}

static void begin_sum(struct sharded *s, int unit)
{
    int rc = s->failure ? 0 : wire_begin(&s->units[unit].reduce);
    if (rc)
        sharded_note(s, rc);
}

/* The sum over this replica has to be there before that over the replicas can start. */
static void advance(struct sharded *s, int unit)
{
    struct sharded_unit *u = &s->units[unit];
    if (u->phase != UNIT_REDUCING)
        return;
    begin_sum(s, unit);
    int rc = s->groups.column ? wire_finish_part(&u->reduce) : wire_finish(&u->reduce);
    sharded_unit_set(u, UNIT_ADVANCED);
    s->low.nonfinite = s->low.nonfinite || u->nonfinite;
    if (!rc && s->groups.column && !s->failure)
        rc = sum_column(s, unit);
    if (!rc)
        rc = wire_begin(&u->reduce);
    if (rc)
        sharded_note(s, rc);
}

static void collect(struct sharded *s, int unit)
{
    struct sharded_unit *u = &s->units[unit];
    const struct shard_unit *place = &s->plan.units[unit];
    advance(s, unit);
    if (u->phase != UNIT_ADVANCED)
        return;
    int rc = wire_finish(&u->reduce);
    sharded_unit_set(u, UNIT_COLLECTED);
    s->reduces--;
    s->low.nonfinite = s->low.nonfinite || u->nonfinite;
    if (rc)
        sharded_note(s, rc);
    if (sharded_keeps_grads(s) || s->failure)
        return;
    const float *sum = sharded_sum_of(s, unit);
    float *own = s->own_grads + place->shard;
    if (s->low.grads)
        sharded_low_collect(s, unit);
    else
        elements_add(s->model, own, sum, place->row);
    sharded_drop(s, &s->grad_pages, unit);
    if (s->low.grads)
        sharded_low_drop_grads(s, unit);
}

/* Where gradients stay in their arena all of them may be on their way; copies of them are few. */
static bool limits_reduces(const struct sharded *s)
{
    return !sharded_keeps_grads(s) || sharded_is(s, WIRE_STAGED);
}

/* A copy on the host is summed once the next unit is being fetched. While the host waits for it,
 * the device has the passes that were enqueued between the two. */
static void start_reduce(struct sharded *s, int unit)
{
    bool staged = sharded_is(s, WIRE_STAGED);
    for (int i = s->trained.n_units - 1;
         i > unit && s->reduces >= SHARDED_REDUCES_MAX && limits_reduces(s); i--)
        collect(s, i);
    if (s->groups.column && unit + 1 < s->trained.n_units && !staged)
        advance(s, unit + 1);
    sharded_unit_set(&s->units[unit], UNIT_REDUCING);
    s->reduces++;
    if (s->failure)
        return;
    int rc = sum_row(s, unit);
    if (rc)
        sharded_note(s, rc);
    if (staged && unit + 1 < s->trained.n_units)
        begin_sum(s, unit + 1);
}

void sharded_unit_done(struct sharded *s, int unit)
{
    float *grads = s->grads + s->plan.units[unit].place;
    int rc = sharded_take_grads(s, unit); /* a unit that no pass entered */
    if (rc) {
        (void)error_set(&s->why, rc, "no device memory for the gradients of block %d", unit);
        sharded_note(s, rc);
        return;
    }
    elements_scale(s->model, grads, s->factor, sharded_elements(s, unit));
    if (s->low.grads)
        sharded_low_take(s, unit);
    if (s->reducing)
        start_reduce(s, unit);
}

void sharded_scaled(void *self, float factor, double scale)
{
    (void)scale;
    ((struct sharded *)self)->factor = factor;
}

void sharded_rescale(void *self, float change)
{
    struct sharded *s = self;
    if (sharded_keeps_grads(s) && !s->low.grads)
        elements_scale(s->model, s->grads, change, s->trained.padded);
}

static void start_due(struct sharded *s)
{
    while (s->next >= 0 && s->units[s->next].missing == 0)
        sharded_unit_done(s, s->next--);
}

void sharded_begin(void *self, struct wk_comm *comm, bool last)
{
    struct sharded *s = self;
    sharded_use(s, comm);
    s->last = last;
    s->reducing = last || !sharded_keeps_grads(s);
    s->following = s->reducing || s->low.grads;
    if (!s->following)
        return;
    s->next = s->trained.n_units - 1;
    s->reduces = 0;
    memset(s->ready, 0, (size_t)s->model->n_params * sizeof(*s->ready));
    for (int i = 0; i < s->trained.n_units; i++) {
        struct sharded_unit *u = &s->units[i];
        insist(u->phase == UNIT_OPEN || u->phase == UNIT_COLLECTED);
        sharded_unit_set(u, UNIT_OPEN);
        u->missing = u->n_params;
    }
}

void sharded_ready(void *self, int index)
{
    struct sharded *s = self;
    if (!s->following || s->ready[index])
        return;
    s->ready[index] = true;
    insist(s->units[s->unit_of[index]].missing > 0);
    s->units[s->unit_of[index]].missing--;
    /* Under hooks the end of a block is what counts: gathers and sums then follow each other in the
     * same order on every rank. */
    if (!s->hooked)
        start_due(s);
}

/* Only static graphs promise which gradients are announced. */
bool sharded_changed(const void *self)
{
    (void)self;
    return false;
}

void sharded_flush(void *self)
{
    struct sharded *s = self;
    while (s->following && s->next >= 0)
        sharded_unit_done(s, s->next--);
    begin_sum(s, 0);
    if (s->last && !s->failure) {
        int rc = step_numbers_start(s->numbers, s->whole);
        if (rc)
            sharded_note(s, rc);
    }
    if (s->hooked)
        sharded_release_all(s);
}

/* Each row to a place at or before its own. */
static void run_compact(struct queue *queue, const void *args)
{
    const struct compact_args *a = args;
    (void)queue;
    for (int i = 0; i < a->plan->n_units; i++) {
        const struct shard_unit *u = &a->plan->units[i];
        memmove(a->arena + u->shard * a->element,
                a->arena + (u->place + u->row * a->part) * a->element, u->row * a->element);
    }
}

/* ZERO1 sums in place: the sums that are this rank's move to the begin of the arena. */
static void compact(struct sharded *s)
{
    bool low = s->low.grads;
    const struct compact_args args = {.plan = &s->trained,
                                      .part = (size_t)s->options.part,
                                      .element = low ? sizeof(uint16_t) : sizeof(float),
                                      .arena = low ? (char *)s->low.grads : (char *)s->grads};
    const struct device_range range = {args.arena, s->trained.padded * args.element, DEVICE_UPDATE};
    queue_launch(s->model->queue, &(struct device_launch){.name = PARALLEL_COMPACT,
                                                          .run = run_compact,
                                                          .args = &args,
                                                          .args_bytes = sizeof(args),
                                                          .ranges = &range,
                                                          .n_ranges = 1});
}

static void end_pass(struct sharded *s)
{
    s->reducing = s->following = s->last = false;
}

int sharded_finish(void *self)
{
    struct sharded *s = self;
    for (int i = s->trained.n_units - 1; i >= 0 && s->reducing; i--)
        collect(s, i);
    int rc = step_numbers_wait(s->numbers);
    if (rc)
        sharded_note(s, rc);
    if (s->reducing && sharded_keeps_grads(s) && !s->failure)
        compact(s);
    bool agrees = s->last && s->low.params && !sharded_is(s, WIRE_OWN);
    if (agrees && !s->failure && (rc = sharded_low_agree(s)) != 0)
        sharded_note(s, rc);
    end_pass(s);
    return s->failure;
}

enum sums sharded_checked(const void *self)
{
    const struct sharded *s = self;
    if (!s->low.params || sharded_is(s, WIRE_OWN))
        return SUMS_UNJUDGED;
    return s->low.nonfinite ? SUMS_NONFINITE : SUMS_FINITE;
}

void sharded_drain(void *self)
{
    struct sharded *s = self;
    for (int i = 0; i < s->plan.n_units; i++) {
        struct sharded_unit *u = &s->units[i];
        wire_forget(&u->gather);
        wire_forget(&u->reduce);
        sharded_unit_set(u, UNIT_OPEN);
    }
    wire_drain(&s->gathers);
    wire_drain(&s->sums);
    sharded_leave_grads(s);
    (void)step_numbers_wait(s->numbers);
    end_pass(s);
    s->reduces = 0;
    s->next = -1;
}

/* Each rank's squares, and their sum, in the device's memory. */
static int squares_on_device(struct sharded *s, double *at)
{
    struct clip_grads sums = sharded_sums(s, 0, s->trained.shard);
    clip_measure(s->model->queue, &sums, at);
    const struct wire_call call = {.op = WIRE_SUM,
                                   .in = at,
                                   .out = at,
                                   .count = 1,
                                   .type = WK_F64,
                                   .out_type = WK_F64,
                                   .ready = event_record(s->model->queue)};
    return wire_run(&s->sums, s->comm, &call, &s->why);
}

int sharded_squares(void *self)
{
    struct sharded *s = self;
    double squares, *at = &s->numbers->verdict.at->squares;
    if (sharded_is(s, WIRE_OWN))
        return squares_on_device(s, at);
    int rc = sharded_measure(s, 0, s->trained.shard, &squares);
    if (!rc)
        rc = wk_all_reduce(s->comm, &squares, 1, WK_F64, WK_SUM, NULL);
    if (rc)
        return rc;
    return queue_write(s->model->queue, at, &squares, sizeof(squares), NULL);
}

int sharded_first_nonfinite(void *self, int *ret_index)
{
    struct sharded *s = self;
    int32_t first = 0, none = model_trained(s->model);
    int rc = 0;
    for (bool finite = true; first < none && finite && !rc; first += finite) {
        double squares = 0;
        int own = s->own_of[first];
        if (own >= 0)
            rc = sharded_measure(s, s->own[own].offset, s->own[own].count, &squares);
        finite = isfinite(squares);
    }
    if (!rc)
        rc = wk_all_reduce(s->whole, &first, 1, WK_I32, WK_MIN, NULL);
    if (!rc)
        *ret_index = first < none ? first : -1;
    return rc;
}

void sharded_clamp(void *self, double most)
{
    struct sharded *s = self;
    struct clip_grads sums = sharded_sums(s, 0, s->trained.shard);
    clip_limit(s->model->queue, &sums, s->numbers->verdict.at, most);
}

void sharded_clear(void *self)
{
    struct sharded *s = self;
    sharded_low_clear(s);
    if (sharded_keeps_grads(s) && !sharded_low_own(s)) {
        queue_fill(s->model->queue, s->grads, 0, s->trained.padded * sizeof(float));
        return;
    }
    if (s->own_grads != s->grads && !s->low.grads)
        queue_fill(s->model->queue, s->own_grads, 0, s->trained.shard * sizeof(float));
    pages_drop(&s->grad_pages, 0, s->grad_pages.count);
}
