/* Workloads of one job a line: CSV, and traces in the Standard Workload Format. Both add jobs to
 * `ret`, which has its cluster; `limit` jobs at most (0 = all). Errors name the line. One thread.
 */
#ifndef CLI_SIM_TRACE_H
#define CLI_SIM_TRACE_H

#include "coordinator/rehearsal/rehearsal.h"

int sim_read_csv(const char *path, int limit, struct rehearsal *ret, struct error *err);
int sim_read_swf(const char *path, int limit, struct rehearsal *ret, struct error *err);

#endif
