#include "libworker/parallel/custom_device.h"

#include <string.h>

#include <worker/error.h>

#include "common/base/str.h"

int custom_device_add(struct custom_device *device, const char *kind, struct error *err)
{
    if (!kind || !*kind || strlen(kind) > WK_DEVICE_NAME_MAX)
        return error_set(err, WK_EINVAL, "a device's name has 1 to %d bytes: cuda, cpu",
                         WK_DEVICE_NAME_MAX);
    for (int i = 0; i < device->n_kinds; i++) {
        if (!strcmp(device->kinds[i], kind))
            return 0;
    }
    if (device->n_kinds == WK_PASSES_DEVICES_MAX)
        return error_set(err, WK_EINVAL, "passes are for %d kinds of devices at most",
                         WK_PASSES_DEVICES_MAX);
    (void)str_copy(device->kinds[device->n_kinds++], WK_DEVICE_NAME_MAX + 1, kind);
    return 0;
}

static bool computes_on(const struct custom_device *device, const char *kind)
{
    for (int i = 0; i < device->n_kinds; i++) {
        if (!strcmp(device->kinds[i], kind))
            return true;
    }
    return !device->n_kinds && !strcmp(kind, "cpu");
}

int custom_device_move(struct custom_device *device, struct queue *queue, struct error *err)
{
    feed_release(&device->feed);
    device->loss = NULL;
    if (!queue || computes_on(device, device_name(queue_device(queue))))
        return 0;
    return error_set(err, WK_EUNSUPPORTED,
                     "the program's own passes compute on %s, and not on device %s: set `device`, "
                     "or declare them by wk_passes_on",
                     device->n_kinds ? device->kinds[0] : "cpu", device_name(queue_device(queue)));
}

enum { TOKENS, TARGETS, TENSORS, ARRAYS_MAX = TENSORS + WK_FIELDS_MAX };

static int list_arrays(const struct wk_batch *batch, struct feed_array arrays[ARRAYS_MAX],
                       struct error *err)
{
    size_t samples = (size_t)batch->samples;
    size_t bytes = samples * (size_t)batch->length * sizeof(*batch->tokens);
    arrays[TOKENS] = (struct feed_array){batch->tokens, bytes};
    arrays[TARGETS] = (struct feed_array){batch->targets, bytes};
    if (batch->n_tensors > WK_FIELDS_MAX)
        return error_set(err, WK_EINVAL, "a batch of %d tensors; it takes %d", batch->n_tensors,
                         WK_FIELDS_MAX);
    for (int i = 0; i < batch->n_tensors; i++) {
        const struct wk_batch_tensor *tensor = &batch->tensors[i];
        if (tensor->data && tensor->elements < 1)
            return error_set(err, WK_EINVAL, "tensor %s: how many elements has a sample?",
                             tensor->name ? tensor->name : "");
        arrays[TENSORS + i] = (struct feed_array){tensor->data, samples * (size_t)tensor->elements *
                                                                    wk_dtype_bytes(tensor->type)};
    }
    return 0;
}

int custom_device_send(struct custom_device *device, struct queue *queue,
                       const struct wk_batch *batch, struct wk_batch *ret, struct error *err)
{
    struct feed_array arrays[ARRAYS_MAX];
    *ret = (struct wk_batch){0};
    int rc = list_arrays(batch, arrays, err);
    if (!rc)
        rc = feed_send(&device->feed, queue, arrays, TENSORS + batch->n_tensors, err);
    if (rc)
        return rc;
    *ret = *batch;
    ret->tokens = arrays[TOKENS].at;
    ret->targets = arrays[TARGETS].at;
    ret->tensors = device->tensors;
    for (int i = 0; i < batch->n_tensors; i++) {
        device->tensors[i] = batch->tensors[i];
        device->tensors[i].data = arrays[TENSORS + i].at;
    }
    return 0;
}
