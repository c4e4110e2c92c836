/* Whether a job can ever run on this cluster. Pure. */
#ifndef SCHEDULER_POSSIBLE_H
#define SCHEDULER_POSSIBLE_H

#include "coordinator/model/cluster.h"

/* 0 if the job could ever run on the registered nodes, empty and all back, within its tenant's
 * limit. An empty cluster refuses nothing. E_FAILED_PRECONDITION names the field; the hint has
 * what would fit. */
int scheduler_possible(const struct cluster *cluster, const struct spec *spec, struct error *err);

/* The same with more nodes. */
int scheduler_possible_with(const struct cluster *cluster, const struct spec *spec,
                            struct node *const *more, int count, struct error *err);

#endif
