/* Kernels of a device's own. Without them, as on the CPU, launches run their `run`. With them a
 * launch runs the kernel of its name, with its arguments; one whose name has none fails the
 * device. So what needs kernels asks for them before it begins. The device's thread.
 */
#ifndef DEVICE_KERNELS_H
#define DEVICE_KERNELS_H

#include "libworker/device/device.h"

/* What an operation makes a device do, for estimates. */
struct device_traffic {
    int launches;         /* of kernels */
    double read, written; /* bytes of device memory */
};

enum { DEVICE_CHOSEN_BYTES = 224 };

struct device_kernel {
    void (*run)(struct queue *queue, const void *args);
    /* What an operation needs meanwhile; NULL: none. Called while a pass is laid out, so that the
     * device can make what the kernel needs. */
    size_t (*scratch_bytes)(const struct device *device, const void *args);
    /* What an operation keeps where that is not what its row says: changes the arguments of its
     * forward kernel, which have no addresses. NULL: as the row says. */
    void (*keep)(void *args);
    /* The number of kernels, and the bytes that they move beyond each tensor once. `args` has no
     * addresses; scratch_bytes was called before. NULL: one kernel, no further bytes. */
    void (*traffic)(const struct device *device, const void *args, struct device_traffic *traffic);
    /* Which of several kernels computes an operation, and why, as a sentence without a full stop;
     * after scratch_bytes. "": the device has one for it. NULL: so has it for all. */
    void (*chosen)(const struct device *device, const void *args, char ret[DEVICE_CHOSEN_BYTES]);
};

bool device_has_kernels(const struct device *device);
const struct device_kernel *device_kernel_find(const struct device *device, const char *name);

/* WK_EUNSUPPORTED, with a sentence, if the device has kernels of its own and none of this name.
 * `kind` is what has the name: "operation". */
int device_kernel_need(const struct device *device, const char *kind, const char *name,
                       struct error *err);

#endif
