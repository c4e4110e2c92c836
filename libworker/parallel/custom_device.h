/* The devices that a program's own passes compute on, and its batches there (worker/device.h).
 * Owned by the custom model; its thread. */
#ifndef PARALLEL_CUSTOM_DEVICE_H
#define PARALLEL_CUSTOM_DEVICE_H

#include <worker/device.h>
#include <worker/rows.h>

#include "libworker/device/feed.h"

struct custom_device {
    char kinds[WK_PASSES_DEVICES_MAX][WK_DEVICE_NAME_MAX + 1];
    int n_kinds; /* 0: the CPU */
    struct feed feed;
    struct wk_batch_tensor tensors[WK_FIELDS_MAX]; /* of the last batch */
    const double *loss;                            /* of the pass, in memory of the device */
};

/* One kind more. WK_EINVAL. */
int custom_device_add(struct custom_device *device, const char *kind, struct error *err);

/* The passes compute on this queue from now on, or nowhere (NULL). WK_EUNSUPPORTED if they do not
 * compute on such a device. */
int custom_device_move(struct custom_device *device, struct queue *queue, struct error *err);

/* wk_send_batch. */
int custom_device_send(struct custom_device *device, struct queue *queue,
                       const struct wk_batch *batch, struct wk_batch *ret, struct error *err);

#endif
