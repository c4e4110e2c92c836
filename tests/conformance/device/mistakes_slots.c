/* Mistakes with parts that take turns (slots.h). */
#include "libworker/device/slots.h"
#include "tests/conformance/device/mistakes.h"
#include "tests/conformance/device/programs.h"

enum { COUNT = 1024 };
#define BYTES (COUNT * sizeof(float))

/* Two parts of one page each, which have one slot. */
struct turns {
    struct queue *queue, *other;
    struct slots *slots;
    float *first, *second, *x;
};

static struct turns turns_new(struct device *device)
{
    struct turns t = {a_queue(device), a_queue(device)};
    size_t granule = slots_granule(device);
    const struct slots_part parts[] = {{0, BYTES, 0}, {granule, BYTES, 0}};
    CHECK(slots_new(t.queue, parts, 2, 1, &t.slots, NULL) == 0);
    t.first = slots_data(t.slots);
    t.second = (float *)((char *)slots_data(t.slots) + granule);
    t.x = device_buffer(device, BYTES);
    CHECK(slots_take(t.slots, 0) == 0);
    queue_fill(t.queue, t.first, 0, BYTES);
    return t;
}

static int turns_free(struct turns *t)
{
    struct device *device = queue_device(t->queue);
    CHECK(queue_finish(t->queue, NULL) == 0 && queue_finish(t->other, NULL) == 0);
    slots_free(t->slots);
    device_memory_free(device, t->x, BYTES);
    queue_free(t->queue);
    queue_free(t->other);
    return 0;
}

/* The leave is not before what fills the next part. */
int turn_without_an_event(struct device *device, bool wrong)
{
    struct turns t = turns_new(device);
    slots_leave(t.slots, 0);
    CHECK(slots_take(t.slots, 1) == 0);
    if (!wrong)
        queue_wait(t.other, event_record(t.queue));
    queue_fill(t.other, t.second, 0, BYTES);
    return turns_free(&t);
}

/* Another queue still reads the part. */
int part_left_while_it_is_read(struct device *device, bool wrong)
{
    struct turns t = turns_new(device);
    queue_wait(t.other, event_record(t.queue));
    affine(t.other, "reader", (struct affine){t.x, t.first, COUNT, 1, 0, false});
    if (!wrong)
        queue_wait(t.queue, event_record(t.other));
    slots_leave(t.slots, 0);
    return turns_free(&t);
}

int part_used_after_its_leave(struct device *device, bool wrong)
{
    struct turns t = turns_new(device);
    if (wrong)
        slots_leave(t.slots, 0);
    queue_fill(t.queue, t.first, 0, BYTES);
    return turns_free(&t);
}

int part_used_before_its_take(struct device *device, bool wrong)
{
    struct turns t = turns_new(device);
    slots_leave(t.slots, 0);
    if (!wrong)
        CHECK(slots_take(t.slots, 1) == 0);
    queue_fill(t.queue, t.second, 0, BYTES);
    return turns_free(&t);
}

/* Gradients are added to what the part before has left. */
int part_not_zeroed(struct device *device, bool wrong)
{
    struct turns t = turns_new(device);
    slots_leave(t.slots, 0);
    CHECK(slots_take(t.slots, 1) == 0);
    queue_fill(t.queue, t.x, 0, BYTES);
    if (!wrong)
        queue_fill(t.queue, t.second, 0, BYTES);
    affine(t.queue, "adder", (struct affine){t.second, t.x, COUNT, 1, 0, true});
    return turns_free(&t);
}

/* It loses its memory while work uses it. */
int part_freed_while_it_is_read(struct device *device, bool wrong)
{
    struct turns t = turns_new(device);
    if (!wrong)
        CHECK(queue_finish(t.queue, NULL) == 0);
    slots_free(t.slots);
    t.slots = NULL;
    return turns_free(&t);
}
