/* The input of `muster sim`: a cluster (YAML) and a workload (YAML, CSV, or a trace in the Standard
 * Workload Format). Unknown keys are errors with the line. See docs/planning.md. */
#ifndef CLI_SIM_FILES_H
#define CLI_SIM_FILES_H

#include "coordinator/rehearsal/rehearsal.h"

/* Fills nodes, tenants and start_ms of zeroed memory. */
int sim_read_cluster(const char *path, struct rehearsal *ret, struct error *err);

/* Adds jobs, by the file's ending: .csv, .swf, otherwise YAML; and tenants that only it names. The
 * cluster must have been read. `limit` jobs at most (0 = all). */
int sim_read_workload(const char *path, int limit, struct rehearsal *ret, struct error *err);

void sim_files_fini(struct rehearsal *rehearsal);

#endif
