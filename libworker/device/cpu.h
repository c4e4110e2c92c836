/* The CPU as a device: its memory is host memory, and work runs at once on the caller's thread. A
 * launch costs a call; its ranges are not read. Events have always happened. Several threads may
 * use queues of one device at a time, if each has its own queues and memory. One thread makes and
 * frees the queues. */
#ifndef DEVICE_CPU_H
#define DEVICE_CPU_H

#include "libworker/device/device.h"

/* WK_ENOMEM. Free with device_free. */
int device_cpu_new(struct device **ret_device, struct error *err);

/* A queue on a CPU of its own, for what was given none: WK_ENOMEM. cpu_close frees both; NULL is
 * fine. */
int cpu_open(struct queue **ret_queue, struct error *err);
void cpu_close(struct queue *queue);

#endif
