/* Cores for workers. A rank that moves between cores competes with its neighbour while another core
 * is idle, and finds cold caches. So each slot has its own cores: an equal part of those this
 * process may use, ordered by sharing (NUMA node, package, core). Plain data, read once. */
#ifndef DEVICE_CORES_H
#define DEVICE_CORES_H

#include <stdint.h>

#include "common/base/error.h"

enum { CORES_MAX = 1024, CORES_TEXT_BYTES = 1024 };

struct cores { /* zeroed: no worker is pinned */
    int count;
    int ids[CORES_MAX];
};

/* `which` is "all", "off", or "2/4": the second of four equal parts, for agents that share a
 * machine. With fewer cores than parts the result is empty. E_INVALID_ARGUMENT for any other
 * text. */
int cores_read(const char *which, struct cores *ret, struct error *err);

struct cores_request {
    uint32_t slot, slots; /* of the worker: first slot and number */
    uint32_t node_slots;  /* all there are */
    double cpus;          /* requested; 0 = not specified */
};

/* The worker's cores, ascending and by ranges ("0-3,8"). "" if it is better not pinned: there are
 * fewer cores than slots, or its share is smaller than its request. */
void cores_share(const struct cores *cores, const struct cores_request *request,
                 char ret[CORES_TEXT_BYTES]);

#endif
