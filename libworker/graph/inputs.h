/* The inputs of a batch in a device's memory. Where the host reads that memory they stay where they
 * are. Elsewhere there are two slots in turn: a batch is sent while the pass before it still reads
 * its own.
 *
 *     batch ──copied──► pinned ──copies queue──► device ──sent──► the pass's launches ──► read
 *
 * The host writes a slot's pinned memory again only when its copy has been waited for. The copies
 * queue writes its device memory only after the launches that read it. A batch's own arrays are in
 * use during the call alone. Owned by the site of a model; one thread.
 */
#ifndef GRAPH_INPUTS_H
#define GRAPH_INPUTS_H

#include "libworker/device/device.h"
#include "libworker/graph/graph.h"

enum { INPUTS_SLOTS = 2 };

struct inputs_slot {
    void *pinned, *memory; /* [bytes] */
    size_t bytes;
    struct event sent; /* of the copies queue: the batch is in device memory */
    struct event read; /* of the passes' queue: nothing enqueued reads it any more */
};

struct inputs {
    struct queue *copies; /* NULL until a batch is copied */
    struct inputs_slot slots[INPUTS_SLOTS];
    int last; /* slot of the last batch */
};

/* For the launches that are enqueued on `queue` from now on: where each input of the batch is, NULL
 * if the batch lacks it. Waits for the copy of the batch before the last one. WK_ENOMEM, or the
 * device's failure. */
struct inputs_wanted {
    const struct wk_graph *graph;
    const struct wk_batch *batch;
    const struct sizes *sizes;
};
int inputs_send(struct inputs *inputs, struct queue *queue, const struct inputs_wanted *wanted,
                const void *ret[GRAPH_NAMED_MAX], struct error *err);

/* Wait for the copies and free all memory; the launches have been waited for. Zeroed is fine. */
void inputs_release(struct inputs *inputs);

#endif
