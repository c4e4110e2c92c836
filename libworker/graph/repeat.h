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

#endif
