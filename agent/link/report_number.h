/* Steps and samples of a reporter, passed on to the core and the outbox. Private to report_*.c. */
#ifndef LINK_REPORT_NUMBER_H
#define LINK_REPORT_NUMBER_H

#include "agent/link/report_state.h"

/* A step was completed: the core is informed within REPORT_BEAT_MS, of the first one at once. */
void reporter_step(struct reporter *r, const struct report_line *line);
/* Keep the line's numbers as the worker's newest. Those of rank 0 are the job's series too. */
void reporter_samples(struct reporter *r, const struct agent_worker *worker,
                      const struct report_line *line);
/* No step is to be expected for this long; 0 ends it. */
void reporter_pause(struct reporter *r, int64_t for_ms);
/* Training waits for a checkpoint from now on, or not any more. */
void reporter_saves(struct reporter *r, bool begins);
/* Pass on to the core what it does not have. */
void reporter_flush(struct reporter *r);
/* Flush within REPORT_BEAT_MS, the first time at once. */
void reporter_flush_soon(struct reporter *r);

#endif
