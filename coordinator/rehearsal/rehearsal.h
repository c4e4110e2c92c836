/* Simulates a cluster on virtual time. Nodes, tenants and jobs are input, the core and scheduler of
 * production decide, and simple agents replace the nodes. For people who plan a cluster. Pure
 * except for its progress callback; one thread; the same input produces the same results.
 *
 * Failures, networks and disks are left out. A job's work is its duration on nodes_max nodes; on
 * fewer nodes it is proportionally longer. A preempted job saves first and loses only the time of
 * its restart.
 */
#ifndef REHEARSAL_REHEARSAL_H
#define REHEARSAL_REHEARSAL_H

#include "common/base/error.h"
#include "coordinator/rehearsal/workload.h"

/* Also fills the results of jobs and tenants. E_INVALID_ARGUMENT for an invalid cluster or job,
 * E_RESOURCE_EXHAUSTED beyond the limits. */
int rehearsal_run(struct rehearsal *rehearsal, struct rehearsal_figures *ret, struct error *err);

#endif
