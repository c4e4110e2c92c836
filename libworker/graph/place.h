/* Where a graph computes: a device's queue, the region of its values, the cache of decoding, and
 * the inputs of batches. Owned by the graph's model; one thread. */
#ifndef GRAPH_PLACE_H
#define GRAPH_PLACE_H

#include <stddef.h>

#include "libworker/device/numbers.h"
#include "libworker/graph/inputs.h"

struct place {
    struct queue *own; /* of the CPU */
    struct queue *queue;
    struct device *device;   /* of the queue */
    struct numbers *numbers; /* made with the first region */
    struct inputs inputs;    /* of the last batches */
    void *region, *cache;
    size_t region_bytes, cache_bytes;
};

/* On the CPU. WK_ENOMEM: then place_fini is allowed. place_fini accepts zeroed memory. */
int place_init(struct place *place, struct error *err);
void place_fini(struct place *place);

/* To this queue, the caller's, which outlives its use here; NULL: back to the CPU. Its memory is
 * lost. */
void place_move(struct place *place, struct queue *queue);

/* Numbers, and a region of at least `bytes`; its contents are lost. WK_ENOMEM leaves it without
 * memory. */
int place_reserve(struct place *place, size_t bytes, struct error *err);
void place_release(struct place *place); /* frees region, inputs and cache */

/* The same for the cache of a text, which lasts until it is dropped. */
int place_keep(struct place *place, size_t bytes, struct error *err);
void place_drop(struct place *place);

/* Write all of the region, so that its pages are there. */
void place_touch(struct place *place);

#endif
