#include "libworker/parallel/sharded_unit.h"

#include "common/base/assert.h"
#include "libworker/device/slots.h"

/* OPEN from REDUCING and ADVANCED: the pass was abandoned. */
#define BIT(phase) (1u << UNIT_##phase)
static const unsigned allowed[] = {
    [UNIT_OPEN] = BIT(OPEN) | BIT(REDUCING),
    [UNIT_REDUCING] = BIT(OPEN) | BIT(ADVANCED),
    [UNIT_ADVANCED] = BIT(OPEN) | BIT(COLLECTED),
    [UNIT_COLLECTED] = BIT(OPEN),
};
#undef BIT

void sharded_unit_set(struct sharded_unit *unit, enum unit_phase phase)
{
    insist(allowed[unit->phase] >> phase & 1);
    insist(!unit->reduce.wire);
    unit->phase = phase;
}

bool sharded_keeps_grads(const struct sharded *s)
{
    return s->options.kind == STRATEGY_ZERO1;
}

bool sharded_frees_params(const struct sharded *s)
{
    return s->options.kind == STRATEGY_FSDP;
}

size_t sharded_elements(const struct sharded *s, int unit)
{
    return s->plan.units[unit].row * (size_t)s->plan.world;
}

bool sharded_is(const struct sharded *s, enum wire_way way)
{
    return wire_way(&s->sums, s->comm) == way;
}

size_t sharded_most(const struct sharded *s, int units)
{
    size_t most = 0;
    for (int i = 0; i < units; i++)
        most = sharded_elements(s, i) > most ? sharded_elements(s, i) : most;
    return most;
}

void sharded_reenter(struct sharded *s)
{
    s->depth = 0;
    for (int i = 0; i < s->plan.n_units; i++)
        s->units[i].entered = 0;
}

void sharded_drop(const struct sharded *s, const struct pages *arena, int unit)
{
    if (arena->slots) {
        slots_leave(arena->slots, unit);
        return;
    }
    size_t pages = (sharded_elements(s, unit) + SHARD_PAGE - 1) / SHARD_PAGE;
    size_t first = s->plan.units[unit].place, count = pages * SHARD_PAGE;
    pages_drop(arena, first, count < arena->count - first ? count : arena->count - first);
}

size_t sharded_row_at(const struct sharded *s, int unit)
{
    const struct shard_unit *u = &s->plan.units[unit];
    return u->place + u->row * (size_t)s->options.part;
}

uint16_t *sharded_low_row(const struct sharded *s, int unit)
{
    const struct sharded_low *low = &s->low;
    return low->rows ? low->rows + s->plan.units[unit].shard
                     : low->params + sharded_row_at(s, unit);
}

size_t sharded_row_first(const struct sharded *s, int unit)
{
    const struct shard_unit *u = &s->plan.units[unit];
    return u->offset + u->row * (size_t)s->options.part;
}

float *sharded_floats(const struct sharded *s, int unit)
{
    return s->masters.queue ? s->floats : s->params + s->plan.units[unit].place;
}

float *sharded_row(const struct sharded *s, float *arena, int unit)
{
    return arena + sharded_row_at(s, unit);
}

void sharded_note(struct sharded *s, int code)
{
    if (!s->failure)
        s->failure = code;
}

const char *sharded_sentence(const void *self)
{
    const struct sharded *s = self;
    struct wk_comm *const comms[] = {s->comm, s->groups.column, s->whole};
    const char *sentence = s->why.text;
    if (!*sentence)
        sentence = *s->gathers.why.text ? s->gathers.why.text : s->sums.why.text;
    for (int i = 0; i < 3 && !*sentence; i++)
        sentence = comms[i] ? wk_comm_error(comms[i]) : "";
    return sentence;
}
