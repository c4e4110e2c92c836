/* What host code reads and writes of memory that may be a device's: directly where the device lets
 * it, else by copies that wait (queue_read, queue_write). With a NULL queue it is host memory. The
 * device's thread.
 */
#ifndef DEVICE_REACH_H
#define DEVICE_REACH_H

#include "libworker/device/device.h"

/* True if host code may use pointers into this queue's memory, once the queue is done. */
bool reach_is_direct(const struct queue *queue);

/* Copy from such memory to the host's / from the host's to it, after all earlier work of the queue.
 * Return the device's failure. */
int reach_read(struct queue *queue, void *to, const void *from, size_t bytes, struct error *err);
int reach_write(struct queue *queue, void *to, const void *from, size_t bytes, struct error *err);

#endif
