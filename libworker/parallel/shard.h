/* The distribution of a model's elements over the ranks: pure arithmetic.
 *
 * Units (buckets, or blocks of layers) cover the model's arena and are communicated whole. Each
 * unit is padded to `world` equal rows, row r is rank r's:
 *
 *      model's arena    |── unit 0 ──|──── unit 1 ────|─ unit 2 ─|
 *      padded arena     |r0|r1|r2|·  |r0 |r1 |r2·|    |r0|r1|r2|·|    units start on SHARD_PAGE
 *      shard of rank 1  |r1|r1 |r1|                                   its rows, one after the other
 *
 * Rows are equal because collectives move equal counts. A rank's elements of the model are not
 * equal: the last rows of a unit may be padding in part or in whole. Plain data, any thread. Source
 * of the scheme: Rajbhandari et al. 2020, "ZeRO"; Zhao et al. 2023, "PyTorch FSDP".
 */
#ifndef PARALLEL_SHARD_H
#define PARALLEL_SHARD_H

#include <stdbool.h>
#include <stddef.h>

#include "common/base/error.h"

enum {
    SHARD_ALIGN = 16,  /* elements: rows start on cache lines */
    SHARD_PAGE = 1024, /* elements: units can be given back to the system one by one */
};

struct shard_unit {
    size_t offset, count; /* elements of the model's arena */
    size_t place;         /* where it starts in the padded arena */
    size_t row;           /* elements of each rank */
    size_t shard;         /* where the row starts in every rank's shard */
};

struct shard_plan {
    int world;
    int n_units;
    int n_trained;            /* the first units, which alone have gradients and optimizer state */
    struct shard_unit *units; /* by offset, covering the model's arena without gap */
    size_t padded;            /* elements of the padded arena */
    size_t shard;             /* elements of one rank's shard */
};

/* `ends[n_units]`: where each unit ends in the model's arena, rising; 0 < world. WK_ENOMEM. */
int shard_plan_init(struct shard_plan *plan, const size_t *ends, int n_units, int world,
                    struct error *err);
/* Let units begin at multiples of `page` elements, which is a multiple of SHARD_PAGE. */
void shard_plan_spread(struct shard_plan *plan, size_t page);
void shard_plan_fini(struct shard_plan *plan); /* zeroed memory is allowed */

/* The trained units as a plan of their own, with the same units: they come first in both arenas.
 * Borrowed; not to be freed. */
struct shard_plan shard_plan_trained(const struct shard_plan *plan);

/* The same units for another world. WK_ENOMEM. */
int shard_plan_recut(const struct shard_plan *plan, int world, struct shard_plan *ret,
                     struct error *err);

/* The part of elements [offset, offset + count) of the model's arena, within unit `unit`, that is
 * in `rank`'s row. */
struct shard_piece {
    size_t first; /* relative to offset */
    size_t count; /* 0: nothing of it */
    size_t at;    /* in the rank's shard */
};
struct shard_piece shard_piece(const struct shard_plan *plan, int unit, int rank, size_t offset,
                               size_t count);

/* The unit that element `offset` of the model's arena is in. */
int shard_unit_of(const struct shard_plan *plan, size_t offset);

/* Elements of the model's arena that are `rank`'s, padding not counted. */
size_t shard_owned(const struct shard_plan *plan, int rank);

/* Copy what `from_rank`'s shard under plan `from` and `to_rank`'s under plan `to` have in common.
 * Both plans are of the same model. */
void shard_carry(const struct shard_plan *from, int from_rank, const float *from_shard,
                 const struct shard_plan *to, int to_rank, float *to_shard);

#endif
