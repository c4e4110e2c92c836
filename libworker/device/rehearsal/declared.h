/* A launch against what it declared: its segments from its ranges, and a run that checks them. */
#ifndef REHEARSAL_DECLARED_H
#define REHEARSAL_DECLARED_H

#include "libworker/device/rehearsal/state.h"

/* The ranges as sorted, disjoint segments: where they overlap, all of their uses. Returns
 * how many. */
int declared_segments(const struct device_range *ranges, int n_ranges,
                      struct segment ret[SEGMENTS_MAX]);

/* Run it with its segments open, twice (rehearsal.h), and report what it did beside them. */
void declared_run(struct rehearsal *rehearsal, struct work *work);

#endif
