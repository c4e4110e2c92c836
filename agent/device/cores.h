/* Cores for workers. A rank of a training job that wanders meets its neighbour on one core while
 * another stands idle, and finds its caches cold; so each slot has cores of its own. They are those
 * this process may run on, in an order in which neighbours share most (NUMA node, package, core),
 * divided evenly. Plain data, read once.
 */
#ifndef DEVICE_CORES_H
#define DEVICE_CORES_H

#include <stdint.h>

#include "common/base/error.h"

enum { CORES_MAX = 1024, CORES_TEXT_BYTES = 1024 };

struct cores { /* zeroed: nobody is pinned */
    int count;
    int ids[CORES_MAX];
};

/* `which` is "all", "off", or "2/4": the second of four equal parts, for agents that share a
 * machine; with fewer cores than parts none. E_INVALID_ARGUMENT. */
int cores_read(const char *which, struct cores *ret, struct error *err);

struct cores_request {
    uint32_t slot, slots; /* of the worker: first, and how many */
    uint32_t node_slots;  /* all there are */
    double cpus;          /* it asked for; 0 = not said */
};

/* The worker's cores, ascending and by ranges ("0-3,8"); "" where it is better left alone: there
 * are fewer cores than slots, or its share is smaller than what it asked for. */
void cores_share(const struct cores *cores, const struct cores_request *request,
                 char ret[CORES_TEXT_BYTES]);

#endif
