#include "libworker/device/rehearsal/rehearsal.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <worker/error.h>

#include "libworker/device/rehearsal/fault.h"
#include "libworker/device/rehearsal/fiber.h"
#include "libworker/device/rehearsal/line.h"
#include "libworker/device/rehearsal/memory.h"
#include "libworker/device/rehearsal/pinned.h"
#include "libworker/device/rehearsal/space.h"
#include "libworker/device/rehearsal/work.h"

static void rehearsal_free(struct device *device)
{
    struct rehearsal *r = rehearsal_of(device);
    fiber_hide_begin(); /* after a failure the host has not waited for all */
    lines_fini(r);
    if (r->n_pieces)
        rehearsal_found(r, "%d pieces of memory were not freed", r->n_pieces);
    spans_fini(r);
    free(r->copies);
    strmap_fini(&r->names);
    fault_unwatch();
    free(r);
    fiber_hide_end();
}

static void *rehearsal_memory_new(struct device *device, enum memory_kind kind, size_t bytes)
{
    struct span *span = span_new(rehearsal_of(device), kind, bytes);
    return span ? span->at : NULL;
}

static void rehearsal_memory_free(struct device *device, enum memory_kind kind, void *memory,
                                  size_t bytes)
{
    span_free(rehearsal_of(device), kind, memory, bytes);
}

static struct queue *rehearsal_queue_new(struct device *device)
{
    struct line *line = line_new(rehearsal_of(device));
    return line ? &line->base : NULL;
}

static void rehearsal_queue_free(struct queue *queue)
{
    line_free(rehearsal_of(queue->device), line_of(queue));
}

static struct event rehearsal_record(struct queue *queue)
{
    return work_record(line_of(queue));
}

static void rehearsal_wait(struct queue *queue, struct event event)
{
    work_wait(rehearsal_of(queue->device), line_of(queue), event);
}

static void rehearsal_launch(struct queue *queue, const struct device_launch *launch)
{
    (void)work_launch(rehearsal_of(queue->device), line_of(queue), launch, NULL);
}

static void run_copy(struct queue *queue, const void *args)
{
    (void)queue;
    const struct device_copy *copy = args;
    memcpy(copy->to, copy->from, copy->bytes);
}

static const char *const copy_names[] = {
    [COPY_SEND] = "queue_send",
    [COPY_FETCH] = "queue_fetch",
    [COPY_WITHIN] = "queue_copy",
};

/* A launch that copies; `ranges` are its sides in device memory, the target first. */
static struct device_launch launch_of(const struct device_copy *copy, const char *name,
                                      struct device_range ranges[2])
{
    int n = 0;
    if (copy->way != COPY_FETCH)
        ranges[n++] = (struct device_range){copy->to, copy->bytes, DEVICE_WRITE};
    if (copy->way != COPY_SEND)
        ranges[n++] = (struct device_range){copy->from, copy->bytes, DEVICE_READ};
    return (struct device_launch){.name = name,
                                  .run = run_copy,
                                  .args = copy,
                                  .args_bytes = sizeof(*copy),
                                  .ranges = ranges,
                                  .n_ranges = n};
}

static void rehearsal_copy(struct queue *queue, const struct device_copy *copy)
{
    struct rehearsal *r = rehearsal_of(queue->device);
    struct line *line = line_of(queue);
    struct device_range ranges[2];
    struct device_copy inside = *copy; /* between the device's views */
    struct device_launch launch = launch_of(&inside, copy_names[copy->way], ranges);
    if (copy->way == COPY_WITHIN) {
        (void)work_launch(r, line, &launch, NULL);
        return;
    }
    bool fetch = copy->way == COPY_FETCH;
    struct device_range pinned = {fetch ? copy->to : copy->from, copy->bytes,
                                  fetch ? DEVICE_WRITE : DEVICE_READ};
    struct span *span = pinned_of(r, pinned.at, pinned.bytes);
    if (!span) {
        rehearsal_found(r,
                        "\"%s\" of %zu bytes whose host side is not pinned memory of this device",
                        launch.name, copy->bytes);
        return;
    }
    size_t first = (size_t)((const char *)pinned.at - span->at);
    if (fetch)
        inside.to = span->view + first;
    else
        inside.from = span->view + first;
    struct flight flight = {.first = first,
                            .end = first + copy->bytes,
                            .fetch = fetch,
                            .queue = line->index,
                            .at = line->enqueued + 1,
                            .name = launch.name};
    pinned_begin(r, span, &flight);
    if (!work_launch(r, line, &launch, &pinned))
        pinned_cancel(r, span);
}

struct fill {
    void *to;
    size_t bytes;
    unsigned char byte;
};

static void run_fill(struct queue *queue, const void *args)
{
    (void)queue;
    const struct fill *fill = args;
    memset(fill->to, fill->byte, fill->bytes);
}

static void rehearsal_fill(struct queue *queue, void *to, unsigned char byte, size_t bytes)
{
    struct fill fill = {to, bytes, byte};
    struct device_range range = {to, bytes, DEVICE_WRITE};
    rehearsal_launch(queue, &(struct device_launch){.name = "queue_fill",
                                                    .run = run_fill,
                                                    .args = &fill,
                                                    .args_bytes = sizeof(fill),
                                                    .ranges = &range,
                                                    .n_ranges = 1});
}

static void rehearsal_finish(struct event event)
{
    work_finish(rehearsal_of(event.queue->device), event);
}

static void rehearsal_transfer(struct queue *queue, const struct device_copy *copy)
{
    struct rehearsal *r = rehearsal_of(queue->device);
    struct device_range ranges[2];
    const char *name = copy->way == COPY_FETCH ? "queue_read" : "queue_write";
    struct device_launch launch = launch_of(copy, name, ranges);
    if (work_launch(r, line_of(queue), &launch, NULL))
        work_finish(r, work_record(line_of(queue)));
}

static const struct device_ops rehearsal_ops = {
    .name = "rehearsal",
    .kernels = "cpu",
    .host_reads = false,
    .spaces = &rehearsal_spaces,
    .free = rehearsal_free,
    .memory_new = rehearsal_memory_new,
    .memory_free = rehearsal_memory_free,
    .queue_new = rehearsal_queue_new,
    .queue_free = rehearsal_queue_free,
    .record = rehearsal_record,
    .wait = rehearsal_wait,
    .launch = rehearsal_launch,
    .copy = rehearsal_copy,
    .fill = rehearsal_fill,
    .finish = rehearsal_finish,
    .transfer = rehearsal_transfer,
};

/* Work that runs at once, late, and between. */
static const double eagerness[] = {0, 0, 0.3, 0.6, 0.9, 1};

int rehearsal_new(const struct rehearsal_options *options, struct device **ret_device,
                  struct error *err)
{
    struct rehearsal *r = calloc(1, sizeof(*r));
    if (!r)
        return error_set(err, WK_ENOMEM, "no memory for a rehearsal device");
    if (!fault_watch(r)) {
        free(r);
        return error_set(err, WK_ESTATE, "this process has a rehearsal device already");
    }
    r->base.ops = &rehearsal_ops;
    r->options = *options;
    r->page = (size_t)sysconf(_SC_PAGESIZE);
    rng_seed(&r->rng, options->seed);
    r->eager = eagerness[rng_below(&r->rng, sizeof(eagerness) / sizeof(*eagerness))];
    *ret_device = &r->base;
    return 0;
}

uint64_t rehearsal_ran(const struct device *device)
{
    return ((const struct rehearsal *)device)->ran;
}
