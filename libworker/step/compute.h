/* Where a context computes: one queue of a device, on which its models' passes and its optimizers'
 * updates follow each other. Parameters, gradients and optimizer state are memory of that device.
 * Owned by the program's thread. */
#ifndef STEP_COMPUTE_H
#define STEP_COMPUTE_H

#include "common/base/error.h"

struct device;
struct queue;
struct wires;

struct compute {
    struct device *device;
    struct queue *queue;
    struct device *own;  /* the device, if the context made it; or NULL */
    struct wires *wires; /* its own collectives, from wk_prepare on; or NULL */
};

/* On `device`, which outlives it; NULL: on a CPU of its own. WK_ENOMEM. */
int compute_init(struct compute *compute, struct device *device, struct error *err);
void compute_fini(struct compute *compute); /* zeroed memory is allowed */

#endif
