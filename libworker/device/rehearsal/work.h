/* What is enqueued on the rehearsal device, and how it is ordered. Orders are known when work is
 * enqueued: they do not depend on when it runs. */
#ifndef REHEARSAL_WORK_H
#define REHEARSAL_WORK_H

#include "libworker/device/rehearsal/state.h"

/* Enqueue a launch. `pinned`, with NULL for none, is the host side of a copy. Reports what it uses
 * without being ordered after it, and what it declares that is no memory. False: not enqueued. */
bool work_launch(struct rehearsal *rehearsal, struct line *line, const struct device_launch *launch,
                 const struct device_range *pinned);

struct event work_record(struct line *line);
void work_wait(struct rehearsal *rehearsal, struct line *line, struct event event);

/* The host waits: work runs until the event has happened or the device has failed. */
void work_finish(struct rehearsal *rehearsal, struct event event);

#endif
