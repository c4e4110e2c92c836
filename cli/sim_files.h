/* The input of `muster sim`: a cluster (YAML) and a workload (YAML, CSV, or a trace in the Standard
 * Workload Format). Unknown keys are errors with the line. See docs/planning.md. */
#ifndef CLI_SIM_FILES_H
#define CLI_SIM_FILES_H

#include <stddef.h>

#include "coordinator/rehearsal/rehearsal.h"

enum { SIM_FILE_MAX_BYTES = 64 << 20 };

/* Fills nodes, tenants and start_ms of zeroed memory. */
int sim_read_cluster(const char *path, struct rehearsal *ret, struct error *err);

/* Adds jobs, by the file's ending: .csv, .swf, otherwise YAML; and tenants that only it names. The
 * cluster must have been read. `limit` jobs at most (0 = all). */
int sim_read_workload(const char *path, int limit, struct rehearsal *ret, struct error *err);

void sim_files_fini(struct rehearsal *rehearsal);

/* For the readers: a job with today's defaults, to be filled; NULL beyond REHEARSAL_JOBS_MAX. */
struct rehearsal_job *sim_add_job(struct rehearsal *rehearsal, struct error *err);
/* A given or drawn value as a whole number or a time. An impossible one becomes the limit, or a
 * time that rehearsal_run refuses. */
int sim_whole(double value, int least);
int64_t sim_ms(double ms);
int sim_read_text(const char *path, char **ret, size_t *ret_size, struct error *err);

/* sim_trace.c: formats of lines */
int sim_read_csv(const char *path, int limit, struct rehearsal *ret, struct error *err);
int sim_read_swf(const char *path, int limit, struct rehearsal *ret, struct error *err);

#endif
