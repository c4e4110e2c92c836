#include "libworker/parallel/masters.h"

#include <string.h>

#include <worker/error.h>

#include "libworker/device/device.h"

size_t masters_piece(size_t count)
{
    return count < MASTERS_PIECE ? count : MASTERS_PIECE;
}

int masters_init(struct masters *masters, struct queue *queue, size_t count, struct error *err)
{
    struct device *device = queue_device(queue);
    size_t bytes = count * sizeof(float);
    void *data = NULL, *piece = NULL;
    if (device_pinned_new(device, bytes, &data, NULL))
        return error_set(err, WK_ENOMEM,
                         "offload.masters: no %zu MiB of pinned memory for the masters of %zu "
                         "parameters; more ranks that share them, or offload.masters none, help",
                         bytes >> 20, count);
    memset(data, 0, bytes);
    *masters = (struct masters){.queue = queue, .data = data, .count = count};
    if (device_memory_new(device, masters_piece(count) * sizeof(float), &piece, NULL))
        return error_set(err, WK_ENOMEM, "no device memory for a piece of the masters");
    masters->piece = piece;
    return 0;
}

void masters_fini(struct masters *masters)
{
    if (!masters->queue)
        return;
    struct device *device = queue_device(masters->queue);
    device_memory_free(device, masters->piece, masters_piece(masters->count) * sizeof(float));
    device_pinned_free(device, masters->data, masters->count * sizeof(float));
    *masters = (struct masters){0};
}

int masters_renew(const struct masters *masters,
                  void (*passed)(void *arg, const float *there, size_t first, size_t count),
                  void *arg)
{
    size_t most = masters_piece(masters->count);
    for (size_t at = 0, n; at < masters->count; at += n) {
        n = masters->count - at < most ? masters->count - at : most;
        queue_send(masters->queue, masters->piece, masters->data + at, n * sizeof(float));
        passed(arg, masters->piece, at, n);
    }
    return queue_finish(masters->queue, NULL);
}

struct masters_overlap masters_overlap(size_t first, size_t count, size_t offset, size_t n)
{
    size_t from = first > offset ? first : offset;
    size_t end = first + count < offset + n ? first + count : offset + n;
    return (struct masters_overlap){from, from < end ? end - from : 0};
}
