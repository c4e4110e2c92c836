/* What the readers of every format of `muster sim` share: a file's text, a new job, numbers within
 * what a rehearsal accepts. Jobs and texts belong to the caller. One thread.
 */
#ifndef CLI_SIM_INPUT_H
#define CLI_SIM_INPUT_H

#include <stddef.h>

#include "coordinator/rehearsal/rehearsal.h"

enum { SIM_FILE_MAX_BYTES = 64 << 20, SIM_COUNT_MAX = 1 << 20 };

/* A file's text with a NUL after it, freed with free. */
int sim_read_text(const char *path, char **ret, size_t *ret_size, struct error *err);

/* A job with today's defaults, to be filled; NULL beyond REHEARSAL_JOBS_MAX. */
struct rehearsal_job *sim_add_job(struct rehearsal *rehearsal, struct error *err);

/* A given or drawn value as a whole number or a time. An impossible one becomes the limit, or a
 * time that rehearsal_run refuses. */
int sim_whole(double value, int least);
int64_t sim_ms(double ms);

#endif
