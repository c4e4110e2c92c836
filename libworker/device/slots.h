/* Parts of an address range that take turns in device memory. Each part has its own addresses and a
 * slot. The parts of a slot are mapped to the same memory, and one of them has it at a time:
 *
 *      addresses     |─ part 0 ─|─ part 1 ─|─ part 2 ─|─ part 3 ─|
 *                         └────┐     └──┐    ┌───┘          │
 *      memory                 |─ slot 0 ─|─ slot 1 ─|◄──────┘
 *
 * Turns cost nothing: maps stay, so no driver is called, the host waits for nothing, and a recorded
 * graph stays valid. A part that is needed while another one has the slot
 * gets memory of its own, until slots_rest.
 *
 *      slots_take ─► the part is used ─► slots_leave ─► another part of its slot is taken
 *
 * Order: what uses a part comes after all that used the slot's earlier parts. As for any memory
 * that is used again, the caller orders queues by events.
 * Content is undefined after a take, and is lost with a leave.
 *
 * On a device that cannot map memory so (space_ops.h) each part has memory of its own from the
 * beginning. The same calls then have the same results. The device's thread.
 */
#ifndef DEVICE_SLOTS_H
#define DEVICE_SLOTS_H

#include <stdbool.h>
#include <stddef.h>

#include "common/base/error.h"

struct device;
struct queue;
struct slots;

/* Bytes of which parts begin at multiples: 0 where each part has its own memory. */
size_t slots_granule(struct device *device);

struct slots_part {
    size_t at, bytes; /* in the range, rising; bytes > 0 */
    int slot;         /* 0 … n_slots - 1 */
};

/* Addresses of all parts. `queue` is borrowed: leaves are in its order. WK_ENOMEM, or the code of
 * a device that failed. */
int slots_new(struct queue *queue, const struct slots_part *parts, int n_parts, int n_slots,
              struct slots **ret, struct error *err);
void slots_free(struct slots *slots); /* after a wait for all work; NULL is fine */
void *slots_data(const struct slots *slots);

/* Memory for every slot. Without it a slot gets memory at its first take. WK_ENOMEM. */
int slots_fill(struct slots *slots);

/* The part that has the memory which `part` would take, or -1. */
int slots_holder(const struct slots *slots, int part);
bool slots_taken(const struct slots *slots, int part);
bool slots_same(const struct slots *slots, int part, int other); /* both are of one slot */

/* The part is not taken, and no part has its memory. WK_ENOMEM: it is not taken. */
int slots_take(struct slots *slots, int part);
void slots_leave(struct slots *slots, int part); /* nothing if it is not taken */
void slots_leave_all(struct slots *slots);

/* Memory of its own for a part that is not taken. Waits for the queue, which is after all use of
 * the part. WK_ENOMEM, or the device's failure. */
int slots_set_apart(struct slots *slots, int part);
bool slots_apart(const struct slots *slots); /* some part has its own */

/* Leave all, wait for the queue, and give all memory back. The device's failure. */
int slots_rest(struct slots *slots);

/* Bytes of memory now, and the most there were. */
size_t slots_bytes(const struct slots *slots);
size_t slots_peak(const struct slots *slots);

#endif
