#include "libworker/parallel/sums_arena.h"

#include <worker/comm.h>

#include "libworker/device/device.h"
#include "libworker/device/wire_ops.h"

int sums_arena_init(struct sums_arena *arena, struct queue *queue, size_t count, struct error *err)
{
    size_t bytes = count * sizeof(*arena->data);
    void *data = NULL;
    *arena = (struct sums_arena){.queue = queue, .count = count};
    if (!device_host_reads(queue_device(queue))) {
        int rc = wire_zeros_new(queue, bytes, &data, err);
        arena->data = data;
        return rc;
    }
    int rc = wk_arena_new(bytes, &arena->shared);
    if (rc)
        return error_set(err, rc, "no memory for %zu gradients", count);
    arena->data = wk_arena_data(arena->shared);
    return 0;
}

void sums_arena_fini(struct sums_arena *arena)
{
    if (arena->shared)
        wk_arena_free(arena->shared);
    else if (arena->data)
        device_memory_free(queue_device(arena->queue), arena->data,
                           arena->count * sizeof(*arena->data));
    *arena = (struct sums_arena){0};
}
