#include "libworker/parallel/sharded_slots.h"

#include <stdlib.h>

#include "common/base/assert.h"
#include "libworker/device/device.h"
#include "libworker/device/slots.h"
#include "libworker/parallel/sharded_unit.h"

bool sharded_takes_turns(const struct sharded *s)
{
    return s->hooked && !device_host_reads(queue_device(s->model->queue));
}

bool sharded_params_turn(const struct sharded *s)
{
    return sharded_takes_turns(s) && !s->options.keep_gathered;
}

void sharded_spread_plan(struct sharded *s)
{
    size_t granule = slots_granule(queue_device(s->model->queue)) / sizeof(uint16_t);
    if (sharded_takes_turns(s) && granule > SHARD_PAGE)
        shard_plan_spread(&s->plan, granule);
}

struct unit_walk sharded_walk(const struct sharded *s)
{
    return (struct unit_walk){.order = s->model->order,
                              .n_units = s->plan.n_units,
                              .n_trained = s->plan.n_trained,
                              .prefetch = s->options.prefetch,
                              .keeps = s->options.keep_gathered};
}

/* The kinds of arenas. Sums are on their way while the next units are at work; what is narrowed at
 * once is not. */
enum arena { ARENA_GATHERED, ARENA_FLOATS, ARENA_GRADS, ARENA_GRADS_AT_WORK, ARENA_LOW_GRADS };

static int find_slots(const struct sharded *s, enum arena arena, struct unit_slots *ret)
{
    size_t *sizes = calloc((size_t)s->plan.n_units, sizeof(*sizes));
    int rc = sizes ? 0 : WK_ENOMEM;
    struct unit_walk walk = sharded_walk(s);
    walk.sizes = sizes;
    for (int i = 0; i < s->plan.n_units && !rc; i++)
        sizes[i] = sharded_elements(s, i);
    if (!rc)
        switch (arena) {
        case ARENA_GATHERED:
            rc = unit_slots_params(&walk, ret);
            break;
        case ARENA_FLOATS:
            rc = unit_slots_one(&walk, ret);
            break;
        case ARENA_GRADS:
            rc = unit_slots_grads(&walk, SHARDED_REDUCES_MAX, true, ret);
            break;
        case ARENA_GRADS_AT_WORK:
            rc = unit_slots_grads(&walk, 0, true, ret);
            break;
        case ARENA_LOW_GRADS:
            rc = unit_slots_grads(&walk, SHARDED_REDUCES_MAX, false, ret);
            break;
        }
    free(sizes);
    return rc;
}

static int slots_of(const struct sharded *s, const struct unit_slots *units, size_t element,
                    struct slots **ret)
{
    struct slots_part *parts = calloc((size_t)units->n_units, sizeof(*parts));
    if (!parts)
        return WK_ENOMEM;
    for (int i = 0; i < units->n_units; i++)
        parts[i] = (struct slots_part){s->plan.units[i].place * element,
                                       sharded_elements(s, i) * element, units->slot_of[i]};
    int rc = slots_new(s->model->queue, parts, units->n_units, units->n_slots, ret, NULL);
    free(parts);
    return rc;
}

/* Pages are counted in floats. */
static int place_slots(struct sharded *s, enum arena arena, size_t element, struct pages *pages)
{
    const struct shard_plan *plan = arena < ARENA_GRADS ? &s->plan : &s->trained;
    struct unit_slots units = {0};
    struct slots *slots = NULL;
    int rc = find_slots(s, arena, &units);
    if (!rc)
        rc = slots_of(s, &units, element, &slots);
    unit_slots_fini(&units);
    if (rc)
        return rc;
    pages_place_slots(pages, s->model->queue, plan->padded * element / sizeof(float), slots);
    return arena == ARENA_FLOATS ? 0 : slots_fill(slots);
}

int sharded_place_params(struct sharded *s)
{
    bool low = narrowing_on(&s->options.narrowing);
    if (low && sharded_takes_turns(s))
        return place_slots(s, ARENA_FLOATS, sizeof(float), &s->param_pages);
    if (!low && sharded_params_turn(s))
        return place_slots(s, ARENA_GATHERED, sizeof(float), &s->param_pages);
    return pages_place(&s->param_pages, s->model->queue, s->plan.padded, PAGES_SHARED);
}

int sharded_place_grads(struct sharded *s)
{
    enum arena arena = s->options.narrowing.grads ? ARENA_GRADS_AT_WORK : ARENA_GRADS;
    if (sharded_takes_turns(s))
        return place_slots(s, arena, sizeof(float), &s->grad_pages);
    return pages_place(&s->grad_pages, s->model->queue, s->trained.padded, PAGES_SHARED);
}

int sharded_place_low_params(struct sharded *s)
{
    struct sharded_low *low = &s->low;
    if (!sharded_params_turn(s))
        return pages_place(&low->param_pages, s->model->queue, (s->plan.padded + 1) / 2,
                           PAGES_SHARED);
    int rc = place_slots(s, ARENA_GATHERED, sizeof(uint16_t), &low->param_pages);
    if (!rc && s->masters.queue)
        rc = pages_place(&low->row_pages, s->model->queue, (s->plan.shard + 1) / 2, PAGES_OF_WIRES);
    low->rows = (uint16_t *)low->row_pages.data;
    return rc;
}

int sharded_place_low_grads(struct sharded *s)
{
    struct sharded_low *low = &s->low;
    void *sums = NULL;
    size_t most = 0;
    if (!sharded_takes_turns(s))
        return pages_place(&low->grad_pages, s->model->queue, (s->trained.padded + 1) / 2,
                           PAGES_SHARED);
    int rc = place_slots(s, ARENA_LOW_GRADS, sizeof(uint16_t), &low->grad_pages);
    if (rc)
        return rc;
    for (int i = 0; i < s->trained.n_units; i++)
        most = s->plan.units[i].row > most ? s->plan.units[i].row : most;
    low->sums_count = SHARDED_REDUCES_MAX * most;
    rc = device_zeros_new(s->model->queue, low->sums_count * sizeof(*low->sums), &sums, NULL);
    low->sums = sums;
    return rc;
}

static const struct pages *gathered_pages(const struct sharded *s)
{
    return s->low.params ? &s->low.param_pages : &s->param_pages;
}

/* Nothing where the unit is taken, or has its memory always. Where another unit's turn is not over,
 * this one gets memory of its own. */
static int take_turn(struct slots *slots, int unit)
{
    if (!slots || slots_taken(slots, unit))
        return 0;
    int rc = slots_holder(slots, unit) >= 0 ? slots_set_apart(slots, unit) : 0;
    if (rc)
        return rc;
    return slots_take(slots, unit);
}

int sharded_to_release(const struct sharded *s, int unit)
{
    const struct slots *slots = gathered_pages(s)->slots;
    int other = slots && !s->all ? slots_holder(slots, unit) : -1;
    return other >= 0 && !s->units[other].entered ? other : -1;
}

int sharded_take_gathered(struct sharded *s, int unit)
{
    return take_turn(gathered_pages(s)->slots, unit);
}

int sharded_take_floats(struct sharded *s, int unit)
{
    return take_turn(s->param_pages.slots, unit);
}

int sharded_take_grads(struct sharded *s, int unit)
{
    struct slots *slots = s->grad_pages.slots;
    if (!slots || slots_taken(slots, unit))
        return 0;
    int rc = take_turn(slots, unit);
    if (!rc)
        queue_fill(s->model->queue, s->grads + s->plan.units[unit].place, 0,
                   sharded_elements(s, unit) * sizeof(*s->grads));
    return rc;
}

int sharded_take_low_grads(struct sharded *s, int unit)
{
    struct slots *slots = s->low.grad_pages.slots;
    if (!slots || slots_taken(slots, unit))
        return 0;
    int rc = take_turn(slots, unit);
    if (!rc)
        queue_fill(s->model->queue, s->low.grads + s->plan.units[unit].place, 0,
                   sharded_elements(s, unit) * sizeof(*s->low.grads));
    return rc;
}

void sharded_note_released(struct sharded *s, int unit)
{
    const struct slots *slots = gathered_pages(s)->slots;
    struct event now = event_record(s->model->queue);
    for (int i = 0; i < s->plan.n_units; i++)
        if (i == unit || (slots && slots_same(slots, unit, i)))
            s->units[i].released = now;
}

int sharded_rest_gathered(struct sharded *s)
{
    struct slots *slots = gathered_pages(s)->slots;
    if (!slots || !slots_apart(slots))
        return 0;
    int rc = slots_rest(slots);
    if (rc)
        return rc;
    return slots_fill(slots);
}

int sharded_rest_floats(struct sharded *s)
{
    bool beside = narrowing_on(&s->options.narrowing);
    return beside && s->param_pages.slots ? slots_rest(s->param_pages.slots) : 0;
}

void sharded_leave_grads(struct sharded *s)
{
    if (s->grad_pages.slots)
        slots_leave_all(s->grad_pages.slots);
    if (s->low.grad_pages.slots)
        slots_leave_all(s->low.grad_pages.slots);
}

float *sharded_sum_of(const struct sharded *s, int unit)
{
    size_t row = s->low.sums_count / SHARDED_REDUCES_MAX;
    if (s->low.sums)
        return s->low.sums + (size_t)(unit % SHARDED_REDUCES_MAX) * row;
    return sharded_row(s, s->grads, unit);
}
