/* The rehearsal device's queues: their work in order, and which of them runs next. */
#ifndef REHEARSAL_LINE_H
#define REHEARSAL_LINE_H

#include "libworker/device/rehearsal/state.h"

enum { LINE_PENDING_MAX = 65536 }; /* beyond it, work runs when more is enqueued */

/* NULL: all indices are in use. */
struct line *line_new(struct rehearsal *rehearsal);

/* Reports a queue that is freed twice, or that has work that the host has not waited for. */
void line_free(struct rehearsal *rehearsal, struct line *line);
void lines_fini(struct rehearsal *rehearsal); /* reports those that were not freed */

/* Append work, which the line owns from now on; by chance, some work runs. */
void line_append(struct rehearsal *rehearsal, struct line *line, struct work *work);

/* Run work of any line until `line` has done its work `at`, or the device has failed. */
void lines_run_until(struct rehearsal *rehearsal, const struct line *line, uint64_t at);

#endif
