#include "libworker/device/reach.h"

#include <string.h>

bool reach_is_direct(const struct queue *queue)
{
    return !queue || device_host_reads(queue_device(queue));
}

int reach_read(struct queue *queue, void *to, const void *from, size_t bytes, struct error *err)
{
    if (queue)
        return queue_read(queue, to, from, bytes, err);
    if (bytes)
        memcpy(to, from, bytes);
    return 0;
}

int reach_write(struct queue *queue, void *to, const void *from, size_t bytes, struct error *err)
{
    if (queue)
        return queue_write(queue, to, from, bytes, err);
    if (bytes)
        memcpy(to, from, bytes);
    return 0;
}
