#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include <worker/error.h>

#include "libworker/parallel/shard.h"

static size_t round_up(size_t count, size_t to)
{
    return (count + to - 1) / to * to;
}

int shard_plan_init(struct shard_plan *plan, const size_t *ends, int n_units, int world,
                    struct error *err)
{
    assert(n_units > 0 && world > 0);
    *plan = (struct shard_plan){.world = world, .n_units = n_units, .n_trained = n_units};
    plan->units = calloc((size_t)n_units, sizeof(*plan->units));
    if (!plan->units)
        return error_set(err, WK_ENOMEM, "no memory for a plan of %d units", n_units);
    size_t offset = 0;
    for (int i = 0; i < n_units; i++) {
        struct shard_unit *unit = &plan->units[i];
        assert(ends[i] > offset);
        unit->offset = offset;
        unit->count = ends[i] - offset;
        unit->place = plan->padded;
        unit->row = round_up((unit->count + (size_t)world - 1) / (size_t)world, SHARD_ALIGN);
        unit->shard = plan->shard;
        plan->padded += round_up(unit->row * (size_t)world, SHARD_PAGE);
        plan->shard += unit->row;
        offset = ends[i];
    }
    return 0;
}

void shard_plan_spread(struct shard_plan *plan, size_t page)
{
    assert(page % SHARD_PAGE == 0);
    plan->padded = 0;
    for (int i = 0; i < plan->n_units; i++) {
        plan->units[i].place = plan->padded;
        plan->padded += round_up(plan->units[i].row * (size_t)plan->world, page);
    }
}

void shard_plan_fini(struct shard_plan *plan)
{
    free(plan->units);
    *plan = (struct shard_plan){0};
}

struct shard_plan shard_plan_trained(const struct shard_plan *plan)
{
    struct shard_plan trained = *plan;
    trained.n_units = plan->n_trained;
    if (plan->n_trained < plan->n_units) {
        trained.padded = plan->units[plan->n_trained].place;
        trained.shard = plan->units[plan->n_trained].shard;
    }
    return trained;
}

int shard_plan_recut(const struct shard_plan *plan, int world, struct shard_plan *ret,
                     struct error *err)
{
    size_t *ends = calloc((size_t)plan->n_units, sizeof(*ends));
    if (!ends)
        return error_set(err, WK_ENOMEM, "no memory for a plan of %d units", plan->n_units);
    for (int i = 0; i < plan->n_units; i++)
        ends[i] = plan->units[i].offset + plan->units[i].count;
    int rc = shard_plan_init(ret, ends, plan->n_units, world, err);
    free(ends);
    if (!rc)
        ret->n_trained = plan->n_trained;
    return rc;
}

struct shard_piece shard_piece(const struct shard_plan *plan, int unit, int rank, size_t offset,
                               size_t count)
{
    const struct shard_unit *u = &plan->units[unit];
    assert(offset >= u->offset && offset + count <= u->offset + u->count);
    size_t row_first = u->offset + u->row * (size_t)rank, row_end = row_first + u->row;
    size_t from = offset > row_first ? offset : row_first;
    size_t to = offset + count < row_end ? offset + count : row_end;
    if (from >= to)
        return (struct shard_piece){0};
    return (struct shard_piece){from - offset, to - from, u->shard + (from - row_first)};
}

int shard_unit_of(const struct shard_plan *plan, size_t offset)
{
    int low = 0, high = plan->n_units - 1;
    while (low < high) {
        int middle = (low + high + 1) / 2;
        if (plan->units[middle].offset <= offset)
            low = middle;
        else
            high = middle - 1;
    }
    return low;
}

size_t shard_owned(const struct shard_plan *plan, int rank)
{
    size_t owned = 0;
    for (int i = 0; i < plan->n_units; i++) {
        const struct shard_unit *unit = &plan->units[i];
        owned += shard_piece(plan, i, rank, unit->offset, unit->count).count;
    }
    return owned;
}

void shard_carry(const struct shard_plan *from, int from_rank, const float *from_shard,
                 const struct shard_plan *to, int to_rank, float *to_shard)
{
    for (int i = 0; i < from->n_units; i++) {
        const struct shard_unit *unit = &from->units[i];
        struct shard_piece held = shard_piece(from, i, from_rank, unit->offset, unit->count);
        size_t at = unit->offset + held.first, end = at + held.count;
        while (at < end) {
            int other = shard_unit_of(to, at);
            const struct shard_unit *u = &to->units[other];
            size_t stop = u->offset + u->count < end ? u->offset + u->count : end;
            struct shard_piece piece = shard_piece(to, other, to_rank, at, stop - at);
            size_t skipped = at + piece.first - unit->offset - held.first;
            if (piece.count)
                memcpy(to_shard + piece.at, from_shard + held.at + skipped,
                       piece.count * sizeof(float));
            at = stop;
        }
    }
}
