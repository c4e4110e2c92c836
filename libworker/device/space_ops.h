/* Addresses apart from memory: an optional part of a device's table (device_ops.h). slots.c is the
 * only caller.
 *
 *     reserve ─► map a piece of memory, at several places if wanted ─► unmap ─► unreserve
 *
 * Sizes and places are multiples of the granule. What is written at one place of a piece is read at
 * another one by work that is ordered after the write, by its queue or by events. `map` is
 * slow, and `unmap` may wait for all work of the device: they are for setting up and for ends.
 */
#ifndef DEVICE_SPACE_OPS_H
#define DEVICE_SPACE_OPS_H

#include <stddef.h>

struct device;
struct device_piece;
struct device_range;
struct queue;

struct space_ops {
    /* Bytes, a power of two. 0: this device cannot. */
    size_t (*granule)(struct device *device);

    /* Addresses without memory. NULL: there are none. unreserve: nothing is mapped any more. */
    void *(*reserve)(struct device *device, size_t bytes);
    void (*unreserve)(struct device *device, void *at, size_t bytes);

    /* Memory without addresses, of undefined content. NULL: there is none. It is freed after its
     * last place was unmapped. */
    struct device_piece *(*piece_new)(struct device *device, size_t bytes);
    void (*piece_free)(struct device *device, struct device_piece *piece);

    /* The first `bytes` of a piece at reserved addresses. Returns a code. unmap: the same place and
     * bytes; no work uses them any more. */
    int (*map)(struct device *device, struct device_piece *piece, void *at, size_t bytes);
    void (*unmap)(struct device *device, void *at, size_t bytes);

    /* For a device that finds mistakes; NULL: it need not know. A range is in use from now on. Then
     * what is enqueued on `queue` next does not use ranges[0]. The others have the same memory. */
    void (*taken)(struct device *device, const struct device_range *range);
    void (*left)(struct queue *queue, const struct device_range *ranges, int n);
};

#endif
