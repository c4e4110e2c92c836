#include "libworker/graph/place.h"

#include <worker/error.h>

#include "libworker/device/cpu.h"

int place_init(struct place *place, struct error *err)
{
    *place = (struct place){0};
    int rc = cpu_open(&place->own, err);
    if (!rc)
        place_move(place, NULL);
    return rc;
}

void place_move(struct place *place, struct queue *queue)
{
    place_release(place);
    numbers_free(place->numbers);
    place->numbers = NULL;
    place->queue = queue ? queue : place->own;
    place->device = queue_device(place->queue);
}

void place_drop(struct place *place)
{
    if (place->queue)
        (void)queue_finish(place->queue, NULL);
    device_memory_free(place->device, place->cache, place->cache_bytes);
    place->cache = NULL;
    place->cache_bytes = 0;
}

void place_release(struct place *place)
{
    if (!place->device)
        return;
    if (place->queue)
        (void)queue_finish(place->queue, NULL);
    device_memory_free(place->device, place->region, place->region_bytes);
    place->region = NULL;
    place->region_bytes = 0;
    inputs_release(&place->inputs);
    place_drop(place);
}

void place_fini(struct place *place)
{
    place_release(place);
    numbers_free(place->numbers);
    cpu_close(place->own);
    *place = (struct place){0};
}

/* *memory of at least `bytes`. */
static int grow(struct place *place, void **memory, size_t *has, size_t bytes, struct error *err)
{
    if (bytes <= *has)
        return 0;
    int rc = queue_finish(place->queue, err);
    device_memory_free(place->device, *memory, *has);
    *memory = NULL;
    *has = 0;
    if (!rc)
        rc = device_memory_new(place->device, bytes, memory, err);
    if (!rc)
        *has = bytes;
    return rc;
}

int place_reserve(struct place *place, size_t bytes, struct error *err)
{
    int rc = place->numbers ? 0 : numbers_new(place->device, GRAPH_NAMED_MAX, &place->numbers, err);
    if (rc)
        return rc;
    return grow(place, &place->region, &place->region_bytes, bytes, err);
}

int place_keep(struct place *place, size_t bytes, struct error *err)
{
    return grow(place, &place->cache, &place->cache_bytes, bytes, err);
}

void place_touch(struct place *place)
{
    queue_fill(place->queue, place->region, 0, place->region_bytes);
    (void)queue_finish(place->queue, NULL);
}
