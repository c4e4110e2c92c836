#include "libworker/device/feed.h"

#include <string.h>

static void slot_free(struct device *device, struct feed_slot *slot)
{
    device_memory_free(device, slot->memory, slot->bytes);
    device_pinned_free(device, slot->pinned, slot->bytes);
    *slot = (struct feed_slot){0};
}

void feed_release(struct feed *feed)
{
    if (!feed->copies)
        return;
    (void)queue_finish(feed->copies, NULL);
    for (int i = 0; i < FEED_SLOTS; i++)
        slot_free(queue_device(feed->copies), &feed->slots[i]);
    queue_free(feed->copies);
    *feed = (struct feed){0};
}

/* Memory of at least `bytes` that nothing uses. */
static int slot_grow(struct queue *queue, struct feed_slot *slot, size_t bytes, struct error *err)
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

static size_t rounded(size_t bytes)
{
    return (bytes + DEVICE_ALIGN_BYTES - 1) / DEVICE_ALIGN_BYTES * DEVICE_ALIGN_BYTES;
}

size_t feed_bytes(const struct feed_array *arrays, int n)
{
    size_t total = 0;
    for (int i = 0; i < n; i++)
        total += arrays[i].at ? rounded(arrays[i].bytes) : 0;
    return total;
}

/* Copy each array to its place in the pinned memory, and name the one that it will have. */
static void collect(const struct feed_slot *slot, struct feed_array *arrays, int n)
{
    size_t at = 0;
    for (int i = 0; i < n; i++) {
        if (!arrays[i].at)
            continue;
        if (arrays[i].bytes)
            memcpy((char *)slot->pinned + at, arrays[i].at, arrays[i].bytes);
        arrays[i].at = (char *)slot->memory + at;
        at += rounded(arrays[i].bytes);
    }
}

int feed_reserve(struct feed *feed, struct queue *queue, size_t bytes, struct error *err)
{
    if (!bytes || device_host_reads(queue_device(queue)))
        return 0;
    int rc = feed->copies ? 0 : queue_new(queue_device(queue), &feed->copies, err);
    if (!rc)
        feed->slots[feed->last].read = event_record(queue);
    for (int i = 0; i < FEED_SLOTS && !rc; i++)
        rc = slot_grow(queue, &feed->slots[i], bytes, err);
    return rc;
}

int feed_send(struct feed *feed, struct queue *queue, struct feed_array *arrays, int n,
              struct error *err)
{
    if (device_host_reads(queue_device(queue)))
        return 0;
    int rc = feed->copies ? 0 : queue_new(queue_device(queue), &feed->copies, err);
    if (rc)
        return rc;
    feed->slots[feed->last].read = event_record(queue);
    feed->last = (feed->last + 1) % FEED_SLOTS;
    struct feed_slot *slot = &feed->slots[feed->last];
    size_t bytes = feed_bytes(arrays, n);
    rc = slot_grow(queue, slot, bytes, err);
    if (rc)
        return rc;
    collect(slot, arrays, n);
    queue_wait(feed->copies, slot->read);
    queue_send(feed->copies, slot->memory, slot->pinned, bytes);
    slot->sent = event_record(feed->copies);
    queue_wait(queue, slot->sent);
    return 0;
}
