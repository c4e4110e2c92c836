#include "libworker/optim/noted.h"

#include <stdio.h>
#include <string.h>

#include "common/base/parse.h"
#include "libworker/device/kernels.h"
#include "libworker/device/remark.h"
#include "libworker/optim/optimizer.h"
#include "libworker/precision/noise.h"

static size_t bytes_of(const struct optimizer_noted *noted)
{
    return (size_t)noted->n * sizeof(*noted->pinned);
}

static int open_memory(struct wk_optimizer *o, struct error *err)
{
    struct device *device = queue_device(o->queue);
    struct optimizer_noted noted = {.n = o->n_segments};
    void *pinned = NULL, *there = NULL;
    int rc = device_pinned_new(device, bytes_of(&noted), &pinned, err);
    if (!rc)
        rc = device_memory_new(device, bytes_of(&noted), &there, err);
    if (rc) {
        device_pinned_free(device, pinned, bytes_of(&noted));
        return rc;
    }
    memset(pinned, 0, bytes_of(&noted));
    noted.pinned = pinned;
    noted.there = there;
    o->noted = noted;
    return 0;
}

static bool repeats(const struct optimizer_ops *ops, enum device_graphs choice, double bytes)
{
    return ops->note && replay_pays(choice, bytes);
}

int noted_choose(struct wk_optimizer *o, double bytes, struct error *err)
{
    struct device *device = queue_device(o->queue);
    enum device_graphs choice =
        device_has_kernels(device) ? device_graphs(device) : DEVICE_GRAPHS_OFF;
    char text[NOTED_REASON_BYTES];
    int rc = repeats(o->ops, choice, bytes) && o->n_segments ? open_memory(o, err) : 0;
    if (rc)
        return rc;
    o->noted.chosen = true;
    noted_reason(o->ops, choice, bytes, text);
    if (choice != DEVICE_GRAPHS_OFF)
        device_remark(device, text);
    return 0;
}

int noted_settle(struct wk_optimizer *o, struct error *err)
{
    return o->noted.pinned ? event_wait(o->noted.sent, err) : 0;
}

/* Of a segment that does not move, only the copy's noise. */
static void write_numbers(const struct wk_optimizer *o, int i)
{
    const struct optimizer_segment *segment = &o->segments[i];
    struct optimizer_numbers numbers = {.kernels = o->kernels};
    struct noted_numbers *noted = &o->noted.pinned[i];
    noted->noise = o->copy.stochastic ? noise_of_step(o->copy.seed, o->steps) : 0;
    if (!(segment->rate_scale > 0))
        return;
    o->ops->numbers(o, segment, &numbers);
    o->ops->note(&numbers, segment->count, noted);
}

void noted_send(struct wk_optimizer *o)
{
    struct optimizer_noted *noted = &o->noted;
    if (!noted->pinned)
        return;
    for (int i = 0; i < noted->n; i++)
        write_numbers(o, i);
    queue_send(o->queue, noted->there, noted->pinned, bytes_of(noted));
    noted->sent = event_record(o->queue);
}

void noted_close(struct wk_optimizer *o)
{
    struct optimizer_noted *noted = &o->noted;
    struct device *device = queue_device(o->queue);
    if (noted->pinned) {
        replay_drop(o->queue, o);
        device_pinned_free(device, noted->pinned, bytes_of(noted));
        device_memory_free(device, noted->there, bytes_of(noted));
    }
    *noted = (struct optimizer_noted){0};
}

void noted_reason(const struct optimizer_ops *ops, enum device_graphs choice, double bytes,
                  char ret[NOTED_REASON_BYTES])
{
    bool pays = repeats(ops, choice, bytes);
    char each[FORMAT_MAX], most[FORMAT_MAX];
    if (choice == DEVICE_GRAPHS_OFF)
        (void)snprintf(ret, NOTED_REASON_BYTES, "graphs of the update: no, compile is off");
    else if (!ops->note)
        (void)snprintf(ret, NOTED_REASON_BYTES,
                       "graphs of the update: no, %s has few launches, with rates as arguments",
                       ops->name);
    else if (choice == DEVICE_GRAPHS_ON)
        (void)snprintf(ret, NOTED_REASON_BYTES, "graphs of the update: yes, compile is on");
    else
        (void)snprintf(ret, NOTED_REASON_BYTES,
                       "graphs of the update: %s, a kernel moves %s on average, %sless than %s",
                       pays ? "yes" : "no", format_bytes((uint64_t)bytes, each), pays ? "" : "not ",
                       format_bytes(REPLAY_BYTES_EACH, most));
}
