/* Which free GPUs of a node the workers of a job get, and in which order. Pure.
 *
 * Collectives of a node go round a ring of its GPUs, as fast as the slowest link in it. So the GPUs
 * are, of those that are free and in this order:
 *
 *     1. those with the best slowest link in their best ring,
 *     2. those with the most bandwidth between all their pairs,
 *     3. those that leave the pairs of free GPUs the most bandwidth: islands stay whole,
 *     4. those of the first slots.
 *
 * Local ranks follow that ring from its first slot on. Where all links are alike the first slots
 * are as good as any.
 *
 * Example: two islands of four, of which the first has two GPUs in use. A job of two gets the two
 * that are free there, one of three gets three of the other island.
 */
#ifndef SCHEDULER_GPU_PICK_H
#define SCHEDULER_GPU_PICK_H

#include <stdbool.h>

#include "coordinator/model/node.h"

enum { GPU_PICK_EXACT_MAX = 8 }; /* with more free GPUs, or a longer ring, it is found greedily */

struct gpu_links { /* of a node's GPUs, by slot */
    int gpus;
    uint8_t of[GPU_LINKS_MAX][GPU_LINKS_MAX]; /* enum gpu_link */
};

/* False: they are not known. */
bool gpu_links_of(const struct node *node, struct gpu_links *ret);

struct gpu_request {
    uint64_t free; /* bit = the slot is free */
    int workers;
    int each; /* adjacent slots of a worker */
};

/* ret_slots gets each worker's first slot, by local rank. False: links do not matter, or there are
 * too few runs of slots; then ret_slots is untouched. */
bool gpu_pick(const struct gpu_links *links, const struct gpu_request *request, int *ret_slots);

/* The slowest link of the ring through these slots in this order; GPU_LINK_SELF of one slot. */
uint8_t gpu_ring_slowest(const struct gpu_links *links, const int *slots, int count);

#endif
