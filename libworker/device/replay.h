/* Sequences of work that repeat are enqueued as one graph of the device, not piece by piece. On
 * CUDA that is a captured stream. The caller marks a section, and enqueues its work as before.
 *
 *     replay_begin ─► launches, copies, fills ─► event_record, queue_wait … ─► more ─► replay_end
 *                     └────── a sequence ──────┘                               └─────┘
 *
 *     1st time    enqueued as it comes, and recorded with all arguments
 *     2nd time    compared piece by piece; the end finds it equal: captured, and enqueued at once
 *     later       compared piece by piece; the end finds it equal: its graph is enqueued
 *     other       at the first piece that differs, what was equal is enqueued, and a record begins
 *
 * A graph is therefore enqueued only where every name, address, size and argument is what was
 * captured: the results are those without graphs, whatever the caller changes. What changes from
 * pass to pass must be in device memory for a sequence to repeat. Host memory that an argument
 * points to belongs to the section's owner: replay_drop comes before any change of it.
 *
 * Everything else on the queue ends a sequence first: events, waits, reads and writes, and software
 * that asks for the stream (native.h). So no other queue is part of a graph, and the order between
 * queues is that without graphs.
 *
 * Without effect on a device that has no graphs, or whose choice is DEVICE_GRAPHS_OFF. A device
 * with graphs reads no ranges. The device's thread.
 */
#ifndef DEVICE_REPLAY_H
#define DEVICE_REPLAY_H

#include <stdbool.h>
#include <stddef.h>

#include "libworker/device/device.h"

enum {
    REPLAY_WORKS_LEAST = 4,       /* of a sequence; shorter ones are enqueued as they come */
    REPLAY_WORKS_MAX = 256,       /* so that the device begins before the host is through */
    REPLAY_RECORDS_MAX = 1024,    /* of a queue, each with at most one graph */
    REPLAY_BYTES_MAX = 64 << 20,  /* of records in host memory */
    REPLAY_BYTES_EACH = 16 << 20, /* what a GPU moves while the host enqueues a launch */
};

/* The setting `compile`. */
enum device_graphs { DEVICE_GRAPHS_OFF, DEVICE_GRAPHS_AUTO, DEVICE_GRAPHS_ON };
enum device_graphs device_graphs_of(const char *setting); /* "off", "auto", "on" */
void device_choose_graphs(struct device *device, enum device_graphs choice);
enum device_graphs device_graphs(const struct device *device); /* OFF: it has none, too */

/* Whether work repeats of which an average launch moves `bytes`:
 *
 *     on      yes
 *     auto    if that is less than REPLAY_BYTES_EACH
 *     off     no
 *
 * A GPU moves 3 to 5 TB/s, and a launch costs the host some 4 microseconds. With 16 MiB a launch
 * the GPU and the host need the same time. Above that the host is ahead, and graphs save little. */
bool replay_pays(enum device_graphs choice, double bytes);

/* A section, not within another one of the queue. Only sequences of the same owner repeat. At
 * REPLAY_RECORDS_MAX or REPLAY_BYTES_MAX the queue is waited for, and all are dropped. If those
 * were repeated less than once each, sections of the queue have no effect from then on. */
void replay_begin(struct queue *queue, const void *owner);
void replay_end(struct queue *queue);

/* Forget the owner's sequences, or all with NULL. Waits for the queue if one of them has a graph.
 * Outside of sections. */
void replay_drop(struct queue *queue, const void *owner);

/* Host memory of a record for a piece of work with arguments of that size, at the least. */
size_t replay_work_bytes(size_t args_bytes);

struct replay_counts {
    long recorded, captured; /* sequences */
    size_t bytes;            /* of records that are kept now */
    long replayed;           /* graphs that were enqueued */
    long works;              /* pieces of work in those */
    bool gives_up;
    const struct error *refused; /* why the device could not capture; NULL: it could */
};
void replay_counted(const struct queue *queue, struct replay_counts *ret);

#endif
