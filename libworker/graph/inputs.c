#include "libworker/graph/inputs.h"

#include <string.h>

#include "libworker/graph/batch.h"
#include "libworker/graph/describe.h"

static void slot_free(struct device *device, struct inputs_slot *slot)
{
    device_memory_free(device, slot->memory, slot->bytes);
    device_pinned_free(device, slot->pinned, slot->bytes);
    *slot = (struct inputs_slot){0};
}

void inputs_release(struct inputs *inputs)
{
    if (!inputs->copies)
        return;
    (void)queue_finish(inputs->copies, NULL);
    for (int i = 0; i < INPUTS_SLOTS; i++)
        slot_free(queue_device(inputs->copies), &inputs->slots[i]);
    queue_free(inputs->copies);
    *inputs = (struct inputs){0};
}

/* Memory of at least `bytes` that nothing uses. */
static int slot_grow(struct queue *queue, struct inputs_slot *slot, size_t bytes, struct error *err)
{
    struct device *device = queue_device(queue);
    int rc = event_wait(slot->sent, err);
    if (rc || bytes <= slot->bytes)
        return rc;
    rc = event_wait(slot->read, err);
    slot_free(device, slot);
    slot->bytes = bytes;
    if (!rc)
        rc = device_memory_new(device, bytes, &slot->memory, err);
    if (!rc)
        rc = device_pinned_new(device, bytes, &slot->pinned, err);
    if (rc)
        slot_free(device, slot);
    return rc;
}

static size_t input_bytes(const struct wk_graph *graph, int input, const struct sizes *sizes)
{
    struct op_tensor tensor = describe_tensor(graph->inputs[input], sizes);
    return (size_t)tensor.count * wk_dtype_bytes(tensor.type);
}

static size_t rounded(size_t bytes)
{
    return (bytes + DEVICE_ALIGN_BYTES - 1) / DEVICE_ALIGN_BYTES * DEVICE_ALIGN_BYTES;
}

static size_t all_bytes(const struct inputs_wanted *wanted, const void *const arrays[])
{
    size_t total = 0;
    for (int i = 0; i < wanted->graph->n_inputs; i++)
        total += arrays[i] ? rounded(input_bytes(wanted->graph, i, wanted->sizes)) : 0;
    return total;
}

/* Copy each array to its place in the pinned memory; ret: from the array to where it will be. */
static void collect(const struct inputs_slot *slot, const struct inputs_wanted *wanted,
                    const void *ret[GRAPH_NAMED_MAX])
{
    size_t at = 0;
    for (int i = 0; i < wanted->graph->n_inputs; i++) {
        size_t bytes = input_bytes(wanted->graph, i, wanted->sizes);
        if (!ret[i])
            continue;
        if (bytes)
            memcpy((char *)slot->pinned + at, ret[i], bytes);
        ret[i] = (char *)slot->memory + at;
        at += rounded(bytes);
    }
}

int inputs_send(struct inputs *inputs, struct queue *queue, const struct inputs_wanted *wanted,
                const void *ret[GRAPH_NAMED_MAX], struct error *err)
{
    for (int i = 0; i < wanted->graph->n_inputs; i++)
        ret[i] = batch_input(wanted->graph, wanted->batch, i);
    if (device_host_reads(queue_device(queue)))
        return 0;
    int rc = inputs->copies ? 0 : queue_new(queue_device(queue), &inputs->copies, err);
    if (rc)
        return rc;
    inputs->slots[inputs->last].read = event_record(queue);
    inputs->last = (inputs->last + 1) % INPUTS_SLOTS;
    struct inputs_slot *slot = &inputs->slots[inputs->last];
    size_t bytes = all_bytes(wanted, ret);
    rc = slot_grow(queue, slot, bytes, err);
    if (rc)
        return rc;
    collect(slot, wanted, ret);
    queue_wait(inputs->copies, slot->read);
    queue_send(inputs->copies, slot->memory, slot->pinned, bytes);
    slot->sent = event_record(inputs->copies);
    queue_wait(queue, slot->sent);
    return 0;
}
