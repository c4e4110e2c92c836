#include "libworker/graph/host_copies.h"

static int open_queues(struct host_copies *c, struct device *device, struct error *err)
{
    int rc = c->out ? 0 : queue_new(device, &c->out, err);
    if (!rc && !c->back)
        rc = queue_new(device, &c->back, err);
    if (rc)
        (void)error_wrap(err, "offload.activations");
    return rc;
}

/* In place of what is there, which no copy uses any more. */
static int grow(struct host_copies *c, struct device *device, size_t bytes, struct error *err)
{
    int rc = queue_finish(c->out, err);
    if (!rc)
        rc = queue_finish(c->back, err);
    if (rc)
        return rc;
    device_pinned_free(device, c->pinned, c->bytes);
    c->pinned = NULL;
    c->bytes = 0;
    rc = device_pinned_new(device, bytes, &c->pinned, err);
    if (rc)
        return error_wrap(err,
                          "offload.activations: no %zu MiB of pinned memory for values; fewer "
                          "samples, recompute, or offload.activations none, help",
                          (bytes >> 20) + 1);
    c->bytes = bytes;
    return 0;
}

int host_copies_reserve(struct host_copies *c, struct queue *queue, size_t bytes, struct error *err)
{
    if (!bytes)
        return 0;
    int rc = open_queues(c, queue_device(queue), err);
    if (!rc && bytes > c->bytes)
        rc = grow(c, queue_device(queue), bytes, err);
    if (rc)
        host_copies_release(c);
    return rc;
}

void host_copies_release(struct host_copies *c)
{
    if (c->out)
        (void)queue_finish(c->out, NULL);
    if (c->back)
        (void)queue_finish(c->back, NULL);
    if (c->pinned)
        device_pinned_free(queue_device(c->out), c->pinned, c->bytes);
    queue_free(c->out);
    queue_free(c->back);
    *c = (struct host_copies){0};
}

void host_copies_settle(const struct host_copies *c, struct queue *queue)
{
    if (!c->out)
        return;
    queue_wait(queue, event_record(c->out));
    queue_wait(queue, event_record(c->back));
}

void host_copies_run(struct host_copies *c, struct queue *queue, const struct host_copy *copy)
{
    bool out = copy->kind == LAUNCH_OUT || copy->kind == LAUNCH_OUT_DONE;
    struct event *ended = out ? &c->sent[copy->turn] : &c->returned[copy->turn];
    struct queue *copies = out ? c->out : c->back;
    if (copy->kind == LAUNCH_OUT_DONE || copy->kind == LAUNCH_BACK_DONE) {
        queue_wait(queue, *ended);
        return;
    }
    queue_wait(copies, event_record(queue));
    if (out)
        queue_fetch(copies, copy->to, copy->from, copy->bytes);
    else
        queue_send(copies, copy->to, copy->from, copy->bytes);
    *ended = event_record(copies);
}
