/* What an implementation of device.h fills in. device.c is the only caller of a table: it has
 * checked the limits of the contract, and dropped empty copies and fills.
 *
 * An implementation puts `struct device` and `struct queue` first into its own structs. It zeroes
 * them, sets `ops` and `device`, and leaves the other members to device.c. No slot waits except
 * `finish` and `transfer`.
 */
#ifndef DEVICE_DEVICE_OPS_H
#define DEVICE_DEVICE_OPS_H

#include <stdatomic.h>

#include "libworker/device/kernels.h"
#include "libworker/device/native.h"
#include "libworker/device/replay.h"

struct wire_ops;
struct remarks;
struct replay;
struct replay_ops;
struct space_ops;

enum memory_kind { MEMORY_DEVICE, MEMORY_PINNED };

/* Between which memories: to the device, to the host, within the device. */
enum copy_way { COPY_SEND, COPY_FETCH, COPY_WITHIN };

struct device_copy {
    enum copy_way way;
    void *to;
    const void *from;
    size_t bytes;
};

struct device_ops {
    const char *name;
    const char *kernels; /* device_kernels */
    bool host_reads;
    bool fresh_zeros;                 /* memory_new gives zeros */
    const struct wire_ops *wires;     /* its own collectives (wire_ops.h); NULL: it has none */
    const struct replay_ops *replays; /* its graphs (replay_ops.h); NULL: it has none */
    const struct space_ops *spaces;   /* addresses apart from memory (space_ops.h); NULL: no */

    /* Its own kernel for launches of this name, NULL for none. A NULL slot: launches run theirs. */
    const struct device_kernel *(*kernel)(const struct device *device, const char *name);

    void (*free)(struct device *device);

    /* NULL: there is no memory. */
    void *(*memory_new)(struct device *device, enum memory_kind kind, size_t bytes);
    void (*memory_free)(struct device *device, enum memory_kind kind, void *memory, size_t bytes);

    /* NULL: there is no memory. At most DEVICE_QUEUES_MAX at a time. */
    struct queue *(*queue_new)(struct device *device);
    void (*queue_free)(struct queue *queue);
    struct queue_native (*native)(struct queue *queue); /* NULL: there is nothing */

    struct event (*record)(struct queue *queue);
    void (*wait)(struct queue *queue, struct event event); /* its queue is never NULL */
    void (*launch)(struct queue *queue, const struct device_launch *launch);
    void (*copy)(struct queue *queue, const struct device_copy *copy);
    void (*fill)(struct queue *queue, void *to, unsigned char byte, size_t bytes);

    /* Block until the event has happened, or the device has failed. */
    void (*finish)(struct event event);
    /* A copy to or from any host memory, COPY_SEND or COPY_FETCH; blocks until it is done. */
    void (*transfer)(struct queue *queue, const struct device_copy *copy);
};

struct device {
    const struct device_ops *ops;
    int n_queues;
    enum device_graphs graphs; /* the choice */
    struct remarks *remarks;   /* of remark.c; NULL until one is made */
    _Atomic int code; /* of its failure; 0: none. Implementations run no work when it is set. */
    struct error *_Atomic failure; /* its sentence; NULL if there was no memory for it */
};

struct queue {
    struct device *device;
    struct replay *replay; /* of replay.c; NULL until a section */
    bool in_section;
};

#endif
