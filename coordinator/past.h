/* Past states without a coordinator: from a data directory, or a backup. For the command line; one
 * thread. Nothing is written. */
#ifndef COORDINATOR_PAST_H
#define COORDINATOR_PAST_H

#include "common/base/error.h"
#include "proto/client.pb-c.h"

struct past;

/* `path` is a data directory, or a file made by `muster backup`. */
int past_open(const char *path, struct past **ret, struct error *err);
void past_close(struct past *past); /* NULL is allowed */

/* Like Coordinator.Replay. The answer is valid until past_close. */
int past_replay(struct past *past, const Muster__ReplayRequest *request, Muster__ReplayAnswer **ret,
                struct error *err);

#endif
