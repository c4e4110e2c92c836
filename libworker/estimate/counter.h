/* A device that counts what its queues are given, and runs nothing. So the code that enqueues a
 * step is asked what it makes a device do. Its kernels are those of another device, or the host's.
 * Addresses of its memory are invented: neither side touches it, and what copies of it would bring
 * is undefined. The caller's thread.
 */
#ifndef ESTIMATE_COUNTER_H
#define ESTIMATE_COUNTER_H

#include "common/base/error.h"
#include "libworker/device/kernels.h"

/* A launch, a copy or a fill. `traffic` has each range once (device.h), and what its kernel moves
 * besides. Of copies between the device and the host it has the device's side. */
struct counted {
    const char *name; /* the launch's, COUNTED_COPY or COUNTED_FILL; static */
    int ranges;
    struct device_traffic traffic;
};

#define COUNTED_COPY "copy numbers"
#define COUNTED_FILL "clear memory"

struct counter {
    const struct device *like; /* borrowed; NULL: the host's kernels */
    void (*counted)(void *arg, const struct counted *counted);
    void *arg;
};

/* device_free. WK_ENOMEM. */
int counter_new(const struct counter *counter, struct device **ret_device, struct error *err);

#endif
