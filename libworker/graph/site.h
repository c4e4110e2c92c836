/* Where a graph computes: a device's queue, the region of its values, the cache of decoding, and
 * the inputs of batches. Owned by the graph's model; one thread. */
#ifndef GRAPH_SITE_H
#define GRAPH_SITE_H

#include <stddef.h>

#include "libworker/device/numbers.h"
#include "libworker/graph/host_copies.h"
#include "libworker/graph/inputs.h"
#include "libworker/graph/op_call.h"

/* What a pass has in the device's memory because it is new in each. */
struct site_noted {
    struct op_keys keys;
    double seeds[GRAPH_NAMED_MAX]; /* of the losses' gradients */
};

struct site {
    struct queue *own; /* of the CPU */
    struct queue *queue;
    struct device *device;     /* of the queue */
    struct numbers *numbers;   /* made with the first region */
    struct site_noted *noted;  /* in device memory; NULL where launches run host functions */
    struct feed inputs;        /* of the last batches */
    struct host_copies copies; /* of what passes offload */
    void *region, *cache;
    size_t region_bytes, cache_bytes;
};

/* On the CPU. WK_ENOMEM: then site_fini is allowed. site_fini accepts zeroed memory. */
int site_init(struct site *site, struct error *err);
void site_fini(struct site *site);

/* To this queue, the caller's, which outlives its use here; NULL: back to the CPU. Its memory is
 * lost. */
void site_move(struct site *site, struct queue *queue);

/* Numbers, and a region of at least `bytes`; its contents are lost. WK_ENOMEM leaves it without
 * memory. */
int site_reserve(struct site *site, size_t bytes, struct error *err);
void site_release(struct site *site); /* frees region, inputs, cache and what is offloaded */

/* The same for the cache of a text, which lasts until it is dropped. */
int site_keep(struct site *site, size_t bytes, struct error *err);
void site_drop(struct site *site);

/* Write all of the region, so that its pages are there. */
void site_touch(struct site *site);

#endif
