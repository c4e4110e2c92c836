#include "libworker/device/slots.h"

#include <stdlib.h>

#include <worker/error.h>

#include "common/base/assert.h"
#include "libworker/device/device_ops.h"
#include "libworker/device/space_ops.h"

struct part {
    char *at;
    size_t bytes; /* in whole granules */
    int slot;
    bool taken, mapped, apart;
    struct device_piece *own; /* of a part that is apart */
};

struct slot {
    size_t bytes; /* of its largest part */
    struct device_piece *piece;
    int holder; /* the part that has it, or -1 */
};

struct slots {
    struct queue *queue;
    const struct space_ops *ops; /* NULL: `data` is memory */
    void *data;
    size_t bytes; /* addresses */
    int n_parts, n_slots;
    struct part *parts;
    struct slot *slots;
    size_t held, peak;
};

size_t slots_granule(struct device *device)
{
    const struct space_ops *ops = device->ops->spaces;
    return ops ? ops->granule(device) : 0;
}

static struct device *device_of(const struct slots *s)
{
    return queue_device(s->queue);
}

static void count_held(struct slots *s, size_t bytes)
{
    s->held += bytes;
    s->peak = s->held > s->peak ? s->held : s->peak;
}

static int range_reserve(struct slots *s, struct error *err)
{
    struct device *device = device_of(s);
    if (!s->ops) {
        int rc = device_memory_new(device, s->bytes, &s->data, err);
        if (!rc)
            count_held(s, s->bytes);
        return rc;
    }
    s->data = s->ops->reserve(device, s->bytes);
    if (s->data)
        return 0;
    int rc = device_failure(device, err);
    if (rc)
        return rc;
    return error_set(err, WK_ENOMEM, "device %s has no range of %zu addresses left",
                     device->ops->name, s->bytes);
}

static void lay_out(struct slots *s, const struct slots_part *parts, size_t granule)
{
    size_t end = 0;
    for (int i = 0; i < s->n_slots; i++)
        s->slots[i].holder = -1;
    for (int i = 0; i < s->n_parts; i++) {
        size_t bytes = (parts[i].bytes + granule - 1) / granule * granule;
        struct slot *slot = &s->slots[parts[i].slot];
        insist(parts[i].at >= end && parts[i].at % granule == 0 && parts[i].bytes);
        insist(parts[i].slot >= 0 && parts[i].slot < s->n_slots);
        s->parts[i] = (struct part){.bytes = bytes, .slot = parts[i].slot};
        slot->bytes = bytes > slot->bytes ? bytes : slot->bytes;
        end = parts[i].at + bytes;
    }
    s->bytes = end;
}

int slots_new(struct queue *queue, const struct slots_part *parts, int n_parts, int n_slots,
              struct slots **ret, struct error *err)
{
    size_t granule = slots_granule(queue_device(queue));
    struct slots *s = calloc(1, sizeof(*s));
    insist(n_parts > 0 && n_slots > 0);
    if (s)
        *s = (struct slots){.queue = queue, .n_parts = n_parts, .n_slots = n_slots};
    if (s) {
        s->parts = calloc((size_t)n_parts, sizeof(*s->parts));
        s->slots = calloc((size_t)n_slots, sizeof(*s->slots));
    }
    if (!s || !s->parts || !s->slots) {
        slots_free(s);
        return error_set(err, WK_ENOMEM, "no memory for %d parts of device memory", n_parts);
    }
    s->ops = granule ? queue_device(queue)->ops->spaces : NULL;
    lay_out(s, parts, granule ? granule : 1);
    int rc = range_reserve(s, err);
    if (rc) {
        slots_free(s);
        return rc;
    }
    for (int i = 0; i < n_parts; i++)
        s->parts[i].at = (char *)s->data + parts[i].at;
    *ret = s;
    return 0;
}

static void part_unmap(struct slots *s, struct part *part)
{
    if (part->mapped)
        s->ops->unmap(device_of(s), part->at, part->bytes);
    part->mapped = false;
}

static void piece_drop(struct slots *s, struct device_piece **piece, size_t bytes)
{
    if (*piece) {
        s->ops->piece_free(device_of(s), *piece);
        s->held -= bytes;
    }
    *piece = NULL;
}

/* Parts have their slots again, and no slot has memory. */
static void give_back(struct slots *s)
{
    for (int i = 0; i < s->n_parts; i++) {
        part_unmap(s, &s->parts[i]);
        piece_drop(s, &s->parts[i].own, s->parts[i].bytes);
        s->parts[i].apart = false;
    }
    for (int i = 0; i < s->n_slots; i++)
        piece_drop(s, &s->slots[i].piece, s->slots[i].bytes);
}

void slots_free(struct slots *s)
{
    if (!s)
        return;
    if (s->data && s->ops) {
        give_back(s);
        s->ops->unreserve(device_of(s), s->data, s->bytes);
    } else {
        device_memory_free(device_of(s), s->data, s->bytes);
    }
    free(s->parts);
    free(s->slots);
    free(s);
}

void *slots_data(const struct slots *s)
{
    return s->data;
}

/* `bytes` of memory, if there is none yet. */
static int need_piece(struct slots *s, struct device_piece **piece, size_t bytes)
{
    if (!s->ops || *piece)
        return 0;
    *piece = s->ops->piece_new(device_of(s), bytes);
    if (*piece) {
        count_held(s, bytes);
        return 0;
    }
    int rc = device_failure(device_of(s), NULL);
    if (!rc)
        rc = WK_ENOMEM;
    return rc;
}

int slots_fill(struct slots *s)
{
    int rc = 0;
    for (int i = 0; i < s->n_slots && !rc; i++)
        rc = need_piece(s, &s->slots[i].piece, s->slots[i].bytes);
    return rc;
}

int slots_holder(const struct slots *s, int part)
{
    const struct part *p = &s->parts[part];
    int holder = s->slots[p->slot].holder;
    return p->apart || holder == part ? -1 : holder;
}

bool slots_taken(const struct slots *s, int part)
{
    return s->parts[part].taken;
}

bool slots_same(const struct slots *s, int part, int other)
{
    return s->parts[part].slot == s->parts[other].slot;
}

static int need_map(struct slots *s, struct part *part)
{
    struct slot *slot = &s->slots[part->slot];
    int rc = part->apart ? 0 : need_piece(s, &slot->piece, slot->bytes);
    if (rc || !s->ops || part->mapped)
        return rc;
    rc = s->ops->map(device_of(s), part->apart ? part->own : slot->piece, part->at, part->bytes);
    part->mapped = !rc;
    return rc;
}

int slots_take(struct slots *s, int part)
{
    struct part *p = &s->parts[part];
    insist(!p->taken && slots_holder(s, part) < 0);
    int rc = need_map(s, p);
    if (rc)
        return rc;
    p->taken = true;
    if (!p->apart)
        s->slots[p->slot].holder = part;
    if (s->ops && s->ops->taken)
        s->ops->taken(device_of(s), &(struct device_range){p->at, p->bytes, DEVICE_SCRATCH});
    return 0;
}

/* The part and those that have its memory, too. */
static void tell_left(struct slots *s, int index)
{
    struct device_range ranges[LAUNCH_RANGES_MAX];
    const struct part *part = &s->parts[index];
    ranges[0] = (struct device_range){part->at, part->bytes, DEVICE_SCRATCH};
    int n = 1;
    for (int i = 0; i < s->n_parts; i++) {
        const struct part *other = &s->parts[i];
        if (i == index || part->apart || other->apart || other->slot != part->slot)
            continue;
        ranges[n++] = (struct device_range){other->at, other->bytes, DEVICE_SCRATCH};
        if (n == LAUNCH_RANGES_MAX) {
            s->ops->left(s->queue, ranges, n);
            n = 1;
        }
    }
    s->ops->left(s->queue, ranges, n);
}

void slots_leave(struct slots *s, int part)
{
    struct part *p = &s->parts[part];
    if (!p->taken)
        return;
    p->taken = false;
    if (!p->apart)
        s->slots[p->slot].holder = -1;
    if (s->ops && s->ops->left)
        tell_left(s, part);
}

void slots_leave_all(struct slots *s)
{
    for (int i = 0; i < s->n_parts; i++)
        slots_leave(s, i);
}

int slots_set_apart(struct slots *s, int part)
{
    struct part *p = &s->parts[part];
    struct device_piece *piece = NULL;
    insist(!p->taken);
    if (p->apart)
        return 0;
    int rc = queue_finish(s->queue, NULL);
    if (!rc)
        rc = need_piece(s, &piece, p->bytes);
    if (rc)
        return rc;
    part_unmap(s, p);
    p->own = piece;
    p->apart = true;
    return 0;
}

bool slots_apart(const struct slots *s)
{
    bool any = false;
    for (int i = 0; i < s->n_parts; i++)
        any = any || s->parts[i].apart;
    return any;
}

int slots_rest(struct slots *s)
{
    slots_leave_all(s);
    int rc = queue_finish(s->queue, NULL);
    if (!rc)
        give_back(s);
    return rc;
}

size_t slots_bytes(const struct slots *s)
{
    return s->held;
}

size_t slots_peak(const struct slots *s)
{
    return s->peak;
}
