/* One series of numbers by step, thinned evenly to METRICS_POINTS_MAX points. Without its points
 * (series_drop) it still recognises repeats; the points are read from its file again. Owned by
 * struct metrics; loop thread only. */
#ifndef STORE_SERIES_H
#define STORE_SERIES_H

#include <stdbool.h>
#include <stddef.h>

#include "coordinator/store/metric.h"

struct series {
    struct metric_point *points; /* room for `capacity` of them, which doubles as it is needed */
    int count, capacity;
    uint64_t stride; /* steps between points kept: doubles with each thinning */
    uint64_t generation;
    /* Samples of the generation before, of steps late_from to late_end - 1, may still come. */
    uint64_t late_generation, late_from, late_end;
    struct metric_point last; /* the newest sample, kept or not */
    bool has_last;
    bool dropped; /* no points are kept */
};

/* NULL without memory. */
struct series *series_new(void);
void series_free(struct series *series); /* NULL is fine */

/* False if the sample is a repeat, or of a generation that is over. Samples of another node may be
 * late: those of the generation before that fill the steps before the newer one are added. */
bool series_add(struct series *series, const struct metric_sample *sample);

/* Keep every second point: the series stays even, and the first point stays. */
void series_thin(struct series *series);

void series_drop(struct series *series);
size_t series_bytes(const struct series *series);

#endif
