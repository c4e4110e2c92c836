/* Values of a forward pass that are in pinned memory of the host until the backward pass reads
 * them. Meanwhile their memory of the device is free for others. Bits do not depend on it.
 *
 *     forward                                             backward
 *     last use ─► OUT ──copies──► OUT_DONE   …   BACK ──copies──► BACK_DONE ─► next use
 *     └── memory of the device ──────────┘       └── other memory of the device ──────┘
 *
 * A piece is all of the memory that values share, so views and results in place move with it.
 *
 * Which. A piece has at least OFFLOAD_BYTES_LEAST, and an OFFLOAD_SHARE-th of what the fullest
 * launch needs. At least OFFLOAD_LAUNCHES_LEAST launches are between its last use forward and its
 * first use backward. The order is by bytes times the time between these, largest first. Only the
 * first pieces move, as few as make the fullest launch need as little as if all moved. Where a
 * number of bytes is allowed, as few move as make it need no more than these.
 *
 * When. Time is counted. A launch needs as long as an H100 for its FLOP or its bytes, whichever is
 * more; the bus moves OFFLOAD_BUS bytes a second each way. A copy back begins so early that it ends
 * before its value is read. A copy out is waited for where it has ended, and at the end of the
 * forward pass. At most LAUNCH_TURNS copies each way have begun and not ended; the next one waits.
 * So a slow bus delays the pass, and no launch needs more memory for it.
 *
 * Owned by the plan's builder; one thread.
 */
#ifndef GRAPH_OFFLOAD_H
#define GRAPH_OFFLOAD_H

#include "libworker/graph/emit.h"

enum {
    OFFLOAD_BYTES_LEAST = 4096,
    OFFLOAD_SHARE = 1024,
    OFFLOAD_LAUNCHES_LEAST = 8,
};

static const double OFFLOAD_BUS = 63e9; /* PCIe 5.0 x16, less its framing */

/* A plan that is listed (schedule.h) and to be listed with other copies, as often as needed. */
struct offload;

/* WK_ENOMEM: NULL. offload_free accepts NULL. */
struct offload *offload_new(struct emitter *emitter);
void offload_free(struct offload *offload);

/* List the plan with enough copies that the fullest launch needs `within` bytes at most, or as
 * little as can be. Sets region_bytes to what it needs, and host_bytes. WK_ENOMEM. */
int offload_list(struct offload *offload, size_t within);

#endif
