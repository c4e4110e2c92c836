/* Graphs of work: an optional part of a device's table (device_ops.h), and what device.c asks of
 * replay.c, the only caller.
 *
 *     capture_begin ─► launch, copy, fill of that queue ─► capture_end ─► enqueue … ─► free
 *
 * Work between the first two is not run. It is kept with its arguments. No slot waits. */
#ifndef DEVICE_REPLAY_OPS_H
#define DEVICE_REPLAY_OPS_H

#include "libworker/device/device_ops.h"

struct device_graph;

struct replay_ops {
    /* A code where the device refuses; nothing has begun then. */
    int (*capture_begin)(struct queue *queue, struct error *err);
    /* On failure there is no graph, and the device is as usable as before. */
    int (*capture_end)(struct queue *queue, struct device_graph **ret, struct error *err);
    void (*enqueue)(struct queue *queue, struct device_graph *graph);
    void (*free)(struct queue *queue, struct device_graph *graph); /* not in use any more */
};

enum replay_kind { REPLAY_LAUNCH, REPLAY_COPY, REPLAY_FILL };

/* A piece of work. Of a fill `copy` has the target and the size. */
struct replay_work {
    enum replay_kind kind;
    unsigned char byte; /* of a fill */
    struct device_launch launch;
    struct device_copy copy;
};

/* In a section (queue->in_section): the piece is compared, and enqueued now or at the cut, which
 * ends the sequence. */
void replay_take(struct queue *queue, const struct replay_work *work);
void replay_cut(struct queue *queue);

/* Of a queue that is freed. */
void replay_free(struct queue *queue);

#endif
