#include "libworker/step/shards.h"

#include <stdlib.h>

#include "libworker/step/context.h"
#include "libworker/step/prepare_settings.h"
#include "libworker/tensor/mapped.h"

struct flats flats_of(struct unit *unit)
{
    const struct strategy_range *range = strategy_range(&unit->strategy);
    struct flats flats = {
        .data = {range->data},
        .elements = {range->held},
        .count = 1,
        .queue = {range->queue},
    };
    struct queue *home;
    (void)optimizer_state_home(unit->optimizer, &home, NULL);
    for (int i = 0; i < unit->optimizer->ops->n_states; i++) {
        flats.queue[flats.count] = home;
        flats.elements[flats.count] = range->count;
        flats.data[flats.count++] = unit->optimizer->state[i];
    }
    return flats;
}

struct shard_plan flat_plan(const struct shard_plan *plan, int flat)
{
    return flat ? shard_plan_trained(plan) : *plan;
}

int shard_buffer_new(const struct wk_context *ctx, size_t count, struct shard_buffer *ret,
                     struct error *err)
{
    const char *dir = prepare_offload(ctx);
    struct shard_buffer buffer = {.count = count};
    buffer.data = dir ? mapped_new(dir, count, NULL) : NULL;
    buffer.mapped = buffer.data != NULL;
    if (!buffer.data)
        buffer.data = calloc(count, sizeof(*buffer.data));
    if (!buffer.data)
        return error_set(err, WK_ENOMEM, "no memory to carry a shard over");
    *ret = buffer;
    return 0;
}

void shard_buffer_free(struct shard_buffer *buffer)
{
    if (buffer->mapped)
        mapped_free(buffer->data, buffer->count);
    else
        free(buffer->data);
    *buffer = (struct shard_buffer){0};
}
