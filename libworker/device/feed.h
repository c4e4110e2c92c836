/* Batches in a device's memory. Where the host reads that memory they stay where they are.
 * Elsewhere there are two slots in turn: a batch is sent while the pass before it still reads its
 * own.
 *
 *     batch ──copied──► pinned ──copies queue──► device ──sent──► the pass's launches ──► read
 *
 * The host writes a slot's pinned memory again only when its copy has been waited for. The copies
 * queue writes its device memory only after the launches that read it. A batch's own arrays are in
 * use during the call alone. Owned by a model; one thread.
 */
#ifndef DEVICE_FEED_H
#define DEVICE_FEED_H

#include "libworker/device/device.h"

enum { FEED_SLOTS = 2 };

struct feed_slot {
    void *pinned, *memory; /* [bytes] */
    size_t bytes;
    struct event sent; /* of the copies queue: the batch is in device memory */
    struct event read; /* of the passes' queue: nothing enqueued reads it any more */
};

struct feed {
    struct queue *copies; /* NULL until a batch is copied */
    struct feed_slot slots[FEED_SLOTS];
    int last; /* slot of the last batch */
};

/* An array of a batch: host memory, and where it is on the device. NULL: the batch lacks it. */
struct feed_array {
    const void *at;
    size_t bytes;
};

/* Memory for batches of `bytes`, as feed_send needs it; nothing where none is copied. WK_ENOMEM, or
 * the device's failure. */
int feed_reserve(struct feed *feed, struct queue *queue, size_t bytes, struct error *err);

/* Of arrays of these sizes, in device memory. */
size_t feed_bytes(const struct feed_array *arrays, int n);

/* Set each array's `at` to where it is for what is enqueued on `queue` from now on, until the next
 * call. Waits for the copy of the batch before the last one. WK_ENOMEM, or the device's failure. */
int feed_send(struct feed *feed, struct queue *queue, struct feed_array *arrays, int n,
              struct error *err);

/* Wait for the copies and free all memory; the launches have been waited for. Zeroed is fine. */
void feed_release(struct feed *feed);

#endif
