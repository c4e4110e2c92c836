#include "libworker/graph/place.h"

#include <worker/error.h>

#include "libworker/device/cpu.h"
#include "libworker/graph/batch.h"
#include "libworker/graph/describe.h"

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
    device_memory_free(place->device, place->inputs, place->inputs_bytes);
    place->region = place->inputs = NULL;
    place->region_bytes = place->inputs_bytes = 0;
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

static size_t rounded(size_t bytes)
{
    return (bytes + DEVICE_ALIGN_BYTES - 1) / DEVICE_ALIGN_BYTES * DEVICE_ALIGN_BYTES;
}

static size_t input_bytes(const struct wk_graph *graph, int input, const struct sizes *sizes)
{
    struct op_tensor tensor = describe_tensor(graph->inputs[input], sizes);
    return (size_t)tensor.count * wk_dtype_bytes(tensor.type);
}

int place_inputs(struct place *place, const struct wk_graph *graph, const struct wk_batch *batch,
                 const struct sizes *sizes, const void *ret[GRAPH_NAMED_MAX])
{
    size_t total = 0;
    int rc = 0;
    for (int i = 0; i < graph->n_inputs; i++) {
        ret[i] = batch_input(graph, batch, i);
        total += rounded(input_bytes(graph, i, sizes));
    }
    if (device_host_reads(place->device))
        return 0;
    rc = grow(place, &place->inputs, &place->inputs_bytes, total, NULL);
    char *at = place->inputs;
    for (int i = 0; i < graph->n_inputs && !rc; i++) {
        size_t bytes = input_bytes(graph, i, sizes);
        if (ret[i])
            rc = queue_write(place->queue, at, ret[i], bytes, NULL);
        ret[i] = ret[i] ? at : NULL;
        at += rounded(bytes);
    }
    return rc;
}
