/* How much memory may be taken on trial. A control group kills a process that takes too much, where
 * a limit of the process refuses. So while batches are tried the process' RLIMIT_DATA is what it
 * has and its part of what its groups have left: what it would be killed for is refused then, to
 * our models and to a program's passes alike. Without limits of groups nothing changes. Any thread;
 * the limit holds for all threads of the process, and of several searches the lowest one.
 */
#ifndef STEP_ROOM_H
#define STEP_ROOM_H

#include <stdbool.h>

#include "common/base/error.h"

struct wk_context;

struct room {
    bool is_limited; /* by this search too */
};

/* Between steps, on all ranks: those of one machine divide what a group that they share has left.
 * Memory of gradients and optimizers is touched before, so that the groups count it. The code of a
 * collective, whose sentence is the communicator's, or WK_ENOMEM on all ranks with one. */
int room_begin(struct wk_context *ctx, struct room *ret, struct error *err);
void room_end(const struct room *room);

#endif
