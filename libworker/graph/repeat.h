/* Whether passes of a plan are enqueued as graphs of the device (device/replay.h). Pure.
 *
 *     on      yes
 *     auto    if its launches move less than REPEAT_BYTES_EACH each, on average
 *     off     no
 *
 * A GPU moves 3 to 5 TB/s, and a launch costs the host some 4 microseconds. With 16 MiB a launch
 * the GPU and the host need the same time. Above that the host is ahead, and graphs save little.
 * Decoding never repeats: its positions are arguments. */
#ifndef GRAPH_REPEAT_H
#define GRAPH_REPEAT_H

#include "libworker/device/replay.h"
#include "libworker/graph/plan.h"

enum { REPEAT_BYTES_EACH = 16 << 20 };

bool repeat_pays(const struct plan *plan, enum device_graphs choice);

/* Bytes of the tensors of an average launch that the device runs; 0 if there is none. */
double repeat_bytes_each(const struct plan *plan);

/* Whether passes are enqueued as graphs, and why, as a sentence without a full stop. */
enum { REPEAT_REASON_BYTES = 128 };
void repeat_reason(const struct plan *plan, enum device_graphs choice,
                   char ret[REPEAT_REASON_BYTES]);

/* The rest of a step, as such a sentence. */
#define REPEAT_UPDATE "graphs of the update: no, its rates and corrections are arguments"

/* Launches of a pass that its graphs have at the most, and what records of them need in the host's
 * memory at the least. What the driver needs for a graph is not known before it is made. */
struct repeat_needs {
    int launches;
    size_t host_bytes;
};
struct repeat_needs repeat_needs(const struct plan *plan);

#endif
