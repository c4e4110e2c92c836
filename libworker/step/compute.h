/* Where a context computes: one queue of a device, on which its models' passes and its optimizers'
 * updates follow each other. Parameters, gradients and optimizer state are memory of that device.
 * Owned by the program's thread.
 *
 * The setting `device` chooses it: `cpu`, `cuda`, or `auto`, which is a GPU where this process has
 * one and there is a module for it. Of several GPUs it is the one of its local rank. A worker of an
 * agent has those in CUDA_VISIBLE_DEVICES, and none where that is missing. */
#ifndef STEP_COMPUTE_H
#define STEP_COMPUTE_H

#include <stdbool.h>

#include "common/base/error.h"

enum { COMPUTE_WHY_BYTES = 1024 };

struct device;
struct queue;
struct wires;

struct compute {
    struct device *device;
    struct queue *queue;
    struct device *own;          /* the device, if the context made it; or NULL */
    struct wires *wires;         /* its own collectives, from wk_prepare on; or NULL */
    char why[COMPUTE_WHY_BYTES]; /* which GPU and attention kernels (module.h); or why none */
};

struct compute_options {
    struct device *device; /* replaces all others, and outlives the context; or NULL */
    const char *kind;      /* "auto", "cpu", "cuda" */
    const char *module;    /* MODULE_VARIABLE's value, or NULL */
    const char *attention; /* the setting: "auto", "own", "cudnn" */
    const char *compile;   /* the setting: "auto", "off", "on" */
    const char *visible;   /* CUDA_VISIBLE_DEVICES' value, or NULL */
    bool has_agent;
    bool exchanges; /* several ranks may use the device's own collectives */
    int local_rank;
};

/* WK_ENOMEM. With cuda also the errors of module_open and of its count; with auto and a GPU, that
 * it cannot be used. */
int compute_init(struct compute *compute, const struct compute_options *options, struct error *err);
void compute_fini(struct compute *compute); /* zeroed memory is allowed */

#endif
