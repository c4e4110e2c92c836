#include "libworker/step/shards.h"

#include <stdlib.h>

#include "libworker/step/prepare.h"
#include "libworker/tensor/mapped.h"

struct flats flats_of(struct unit *unit)
{
    struct flats flats = {.data = {strategy_range(&unit->strategy)->data}, .count = 1};
    for (int i = 0; i < unit->optimizer->ops->n_states; i++)
        flats.data[flats.count++] = unit->optimizer->state[i];
    return flats;
}

int room_new(const struct wk_context *ctx, size_t count, struct room *ret, struct error *err)
{
    const char *dir = prepare_offload(ctx);
    struct room room = {.count = count};
    room.data = dir ? mapped_new(dir, count, NULL) : NULL;
    room.mapped = room.data != NULL;
    if (!room.data)
        room.data = calloc(count, sizeof(*room.data));
    if (!room.data)
        return error_set(err, WK_ENOMEM, "no memory to carry a shard over");
    *ret = room;
    return 0;
}

void room_free(struct room *room)
{
    if (room->mapped)
        mapped_free(room->data, room->count);
    else
        free(room->data);
    *room = (struct room){0};
}
