#include "libworker/parallel/stage.h"

#include <stdlib.h>

#include <worker/error.h>

void stages_init(struct stages *stages, struct queue *queue)
{
    *stages = (struct stages){.queue = queue};
}

int stages_open(struct stages *stages, struct error *err)
{
    struct device *device = queue_device(stages->queue);
    int rc = stages->out ? 0 : queue_new(device, &stages->out, err);
    if (!rc && !stages->in)
        rc = queue_new(device, &stages->in, err);
    return rc;
}

void stages_drain(struct stages *stages)
{
    if (stages->out)
        (void)queue_finish(stages->out, NULL);
    if (stages->in)
        (void)queue_finish(stages->in, NULL);
}

void stages_fini(struct stages *stages)
{
    stages_drain(stages);
    while (stages->list) {
        struct stage *stage = stages->list;
        stages->list = stage->next;
        device_pinned_free(queue_device(stages->queue), stage->host, stage->bytes);
        free(stage);
    }
    queue_free(stages->out);
    queue_free(stages->in);
    *stages = (struct stages){0};
}

static int stage_new(struct stages *stages, size_t bytes, struct stage **ret, struct error *err)
{
    struct stage *stage = calloc(1, sizeof(*stage));
    if (!stage)
        return error_set(err, WK_ENOMEM, "no memory for a copy of %zu bytes", bytes);
    int rc = device_pinned_new(queue_device(stages->queue), bytes, &stage->host, err);
    if (rc) {
        free(stage);
        return rc;
    }
    stage->bytes = bytes;
    stage->next = stages->list;
    stages->list = stage;
    *ret = stage;
    return 0;
}

int stage_reserve(struct stages *stages, size_t bytes, struct stage **ret, struct error *err)
{
    struct stage *stage = stages->list;
    int rc = stages_open(stages, err);
    if (rc)
        return rc;
    while (stage && (stage->reserved || stage->bytes < bytes))
        stage = stage->next;
    rc = stage ? event_wait(stage->fetched, err) : stage_new(stages, bytes, &stage, err);
    if (!rc)
        rc = event_wait(stage->sent, err);
    if (rc)
        return rc;
    stage->reserved = true;
    *ret = stage;
    return 0;
}

void stage_return(struct stage *stage)
{
    if (stage)
        stage->reserved = false;
}

void stage_fetch(struct stages *stages, struct stage *stage, const struct stage_copy *copy)
{
    queue_wait(stages->out, copy->after);
    queue_fetch(stages->out, (char *)stage->host + copy->at, copy->device, copy->bytes);
    stage->fetched = event_record(stages->out);
}

void stage_send(struct stages *stages, struct stage *stage, const struct stage_copy *copy)
{
    queue_wait(stages->in, copy->after);
    queue_send(stages->in, copy->device, (char *)stage->host + copy->at, copy->bytes);
    stage->sent = event_record(stages->in);
    queue_wait(stages->queue, stage->sent);
}

int stage_await(struct stage *stage, struct error *err)
{
    return event_wait(stage->fetched, err);
}
