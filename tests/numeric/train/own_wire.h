/* Collectives for devices of several processes (device/wire_ops.h), over memory that the
 * processes share. What the device's launches declare is checked as always. A message is published
 * when it is enqueued, for which its queue runs up to there: a device of its own would be as far.
 *
 * The death of a process is silence: what is enqueued then runs until the wire is aborted.
 *
 * own_wire.c has wires of its own. tests/cuda/nccl_wire.c has those of the CUDA module, over a fake
 * NCCL.
 */
#ifndef TRAIN_OWN_WIRE_H
#define TRAIN_OWN_WIRE_H

#include <stdint.h>

#include "libworker/device/device.h"

enum { OWN_WIRES_MAX = 24 };

struct own_wires; /* in memory that the processes share, and zeros at first */
struct own_wires *own_wires_new(void);
void own_wires_clear(struct own_wires *wires); /* between two runs */
void own_wires_free(struct own_wires *wires);

/* What is to go wrong. */
enum own_wires_fault {
    OWN_WIRES_WORK,
    OWN_WIRES_ABSENT,     /* this rank's device has none */
    OWN_WIRES_FAIL,       /* its wires never connect */
    OWN_WIRES_HANG,       /* its aborts do not end */
    OWN_WIRES_BREAK,      /* the first one, once it has worked */
    OWN_WIRES_SCARCE,     /* it has no memory that can be shared */
    OWN_WIRES_NO_WINDOWS, /* it has, and cannot share it */
};

/* A device of this process that they are of. Mistakes are told to `found`, where it knows it. */
struct device *own_wires_device(uint64_t seed, void (*found)(void *self, const char *sentence),
                                void *self);

/* Give this process's device wires. They live until the process ends. */
void own_wires_give(struct own_wires *wires, struct device *device, enum own_wires_fault fault);

/* An id for a wire between processes, as rank 0's. The module's alone. */
void own_wires_id(const struct own_wires *wires, unsigned char *ret_id);

int own_wires_prepared(const struct own_wires *wires); /* processes */

/* Memories that processes have enrolled together, and each alone. */
int own_wires_shared(const struct own_wires *wires);
int own_wires_unshared(const struct own_wires *wires);

/* Messages that all processes have enqueued, and when the last abort was, in ms of the monotonic
 * clock. */
int own_wires_messages(const struct own_wires *wires);
long long own_wires_aborted_ms(const struct own_wires *wires);

#endif
