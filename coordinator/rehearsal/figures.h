/* The results of a rehearsal: sums and order statistics. Only for rehearsal.c and its tests. */
#ifndef REHEARSAL_FIGURES_H
#define REHEARSAL_FIGURES_H

#include "coordinator/rehearsal/workload.h"

/* `busy_slot_ms` is all that was used. */
void figures_compute(struct rehearsal *rehearsal, int64_t busy_slot_ms,
                     struct rehearsal_figures *ret);

#endif
