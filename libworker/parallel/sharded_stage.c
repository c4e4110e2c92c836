#include "libworker/parallel/sharded_stage.h"

#include "libworker/parallel/sharded_unit.h"

bool sharded_staged(const struct sharded *s)
{
    return !stages_direct(&s->gathers);
}

/* Of the largest of the first `units` units, so that one copy serves each. */
static size_t most_elements(const struct sharded *s, int units)
{
    size_t most = 0;
    for (int i = 0; i < units; i++)
        most = sharded_elements(s, i) > most ? sharded_elements(s, i) : most;
    return most;
}

struct queue *sharded_row_queue(struct sharded *s, int unit)
{
    if (!sharded_staged(s))
        return s->model->queue;
    queue_wait(s->gathers.out, s->updated);
    queue_wait(s->gathers.out, s->units[unit].released);
    return s->gathers.out;
}

int sharded_stage_gather(struct sharded *s, int unit, const void *row, enum wk_dtype type,
                         struct wk_work **ret_work)
{
    struct sharded_unit *u = &s->units[unit];
    size_t count = s->plan.units[unit].row, size = wk_dtype_bytes(type);
    size_t most = most_elements(s, s->plan.n_units);
    int rc = stage_reserve(&s->gathers, most * sizeof(float), &u->gathering, &s->why);
    if (rc)
        return rc;
    const struct stage_copy copy = {.device = (void *)(uintptr_t)row,
                                    .at = count * (size_t)s->options.part * size,
                                    .bytes = count * size,
                                    .after = s->updated};
    stage_fetch(&s->gathers, u->gathering, &copy);
    rc = stage_await(u->gathering, &s->why);
    if (rc)
        return rc;
    char *host = u->gathering->host;
    return wk_all_gather(s->comm, host + copy.at, host, count, type, ret_work);
}

void sharded_stage_gathered(struct sharded *s, int unit, void *to, enum wk_dtype type)
{
    struct sharded_unit *u = &s->units[unit];
    const struct stage_copy copy = {.device = to,
                                    .bytes = sharded_elements(s, unit) * wk_dtype_bytes(type),
                                    .after = u->released};
    if (u->gathering && !s->failure)
        stage_send(&s->gathers, u->gathering, &copy);
    stage_return(u->gathering);
    u->gathering = NULL;
}

float *sharded_floats(const struct sharded *s, int unit)
{
    const struct stage *stage = s->units[unit].summing;
    return stage ? stage->host : s->grads + s->plan.units[unit].place;
}

uint16_t *sharded_halves(const struct sharded *s, int unit)
{
    const struct stage *stage = s->units[unit].summing;
    return stage ? (uint16_t *)((float *)stage->host + sharded_elements(s, unit))
                 : s->low.grads + s->plan.units[unit].place;
}

static size_t halves_at(const struct sharded *s, int unit)
{
    return sharded_elements(s, unit) * sizeof(float);
}

int sharded_stage_grads(struct sharded *s, int unit)
{
    struct sharded_unit *u = &s->units[unit];
    size_t count = sharded_elements(s, unit), place = s->plan.units[unit].place;
    size_t each = sizeof(float) + (s->low.grads ? sizeof(uint16_t) : 0);
    size_t most = most_elements(s, s->trained.n_units);
    int rc = stage_reserve(&s->sums, most * each, &u->summing, &s->why);
    if (rc)
        return rc;
    struct stage_copy copy = {.device = s->grads + place,
                              .bytes = count * sizeof(float),
                              .after = event_record(s->model->queue)};
    if (s->low.grads) {
        copy.device = s->low.grads + place;
        copy.at = halves_at(s, unit);
        copy.bytes = count * sizeof(uint16_t);
    }
    stage_fetch(&s->sums, u->summing, &copy);
    return 0;
}

int sharded_stage_ready(struct sharded *s, int unit)
{
    struct stage *stage = s->units[unit].summing;
    return stage ? stage_await(stage, &s->why) : 0;
}

void sharded_stage_summed(struct sharded *s, int unit)
{
    struct sharded_unit *u = &s->units[unit];
    size_t row = s->plan.units[unit].row, own = row * (size_t)s->options.part;
    struct stage_copy copy = {.device = sharded_row(s, s->grads, unit),
                              .at = own * sizeof(float),
                              .bytes = row * sizeof(float)};
    if (s->low.grads && sharded_keeps_grads(s)) {
        copy.device = s->low.grads + sharded_row_at(s, unit);
        copy.at = halves_at(s, unit) + own * sizeof(uint16_t);
        copy.bytes = row * sizeof(uint16_t);
    }
    if (u->summing && !s->failure)
        stage_send(&s->sums, u->summing, &copy);
    stage_return(u->summing);
    u->summing = NULL;
}

void sharded_stage_drain(struct sharded *s)
{
    stages_drain(&s->gathers);
    stages_drain(&s->sums);
    for (int i = 0; i < s->plan.n_units; i++) {
        struct sharded_unit *u = &s->units[i];
        stage_return(u->gathering);
        stage_return(u->summing);
        u->gathering = u->summing = NULL;
        u->fetched = false;
    }
}
