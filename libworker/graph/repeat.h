/* Whether passes of a plan are enqueued as graphs of the device: by replay_pays
 * (device/replay.h). Decoding never repeats: its positions are arguments. Pure. */
#ifndef GRAPH_REPEAT_H
#define GRAPH_REPEAT_H

#include "libworker/device/replay.h"
#include "libworker/graph/plan.h"

bool repeat_pays(const struct plan *plan, enum device_graphs choice);

/* Bytes of the tensors of an average launch that the device runs; 0 if there is none. */
double repeat_bytes_each(const struct plan *plan);

/* Whether passes are enqueued as graphs, and why, as a sentence without a full stop. */
enum { REPEAT_REASON_BYTES = 128 };
void repeat_reason(const struct plan *plan, enum device_graphs choice,
                   char ret[REPEAT_REASON_BYTES]);

/* Launches of a pass that its graphs have at the most, and what records of them need in the host's
 * memory at the least. What the driver needs for a graph is not known before it is made. */
struct repeat_needs {
    int launches;
    size_t host_bytes;
};
struct repeat_needs repeat_needs(const struct plan *plan);

#endif
