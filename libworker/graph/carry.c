#include "libworker/graph/carry.h"

#include <string.h>

#include "libworker/device/device.h"

enum { CONTENT, WINDOW, PASS, COPIES };

static struct graph_model *graph_of(struct wk_model *model)
{
    return (struct graph_model *)model;
}

static float *copy_at(const struct graph_model *m, int copy)
{
    return m->carried + (size_t)copy * m->model.buffers.count;
}

static size_t bytes_of(const struct graph_model *m)
{
    return m->model.buffers.count * sizeof(*m->carried);
}

static void carry_reset(struct wk_model *model)
{
    const struct wk_graph *graph = graph_of(model)->graph;
    for (int i = 0; i < graph->n_buffers; i++) {
        const struct graph_buffer *buffer = &graph->buffers[i];
        for (size_t k = 0; k < buffer->count; k++)
            model->buffers.host[buffer->offset + k] = buffer->value;
    }
}

int carry_init(struct graph_model *m)
{
    const struct wk_graph *graph = m->graph;
    struct buffers *buffers = &m->model.buffers;
    int rc = buffers_init(buffers, graph->n_buffers, graph->buffers_count);
    for (int i = 0; i < buffers->n && !rc; i++) {
        const struct graph_buffer *from = &graph->buffers[i];
        struct param *to = &buffers->list[i];
        memcpy(to->name, from->tensor->name, strlen(from->tensor->name) + 1);
        to->dims = from->tensor->dims;
        for (int k = 0; k < to->dims; k++)
            to->shape[k] = from->tensor->shape[k].fixed;
        to->count = from->count;
        to->offset = from->offset;
    }
    if (!rc && buffers->n)
        carry_reset(&m->model);
    return rc;
}

static void drop_memory(struct graph_model *m)
{
    device_memory_free(m->site.device, m->carried, COPIES * bytes_of(m));
    m->carried = NULL;
}

void carry_fini(struct graph_model *m)
{
    if (m->carried)
        drop_memory(m);
    buffers_fini(&m->model.buffers);
}

static void copy_all(const struct graph_model *m, int to, int from)
{
    queue_copy(m->site.queue, copy_at(m, to), copy_at(m, from), bytes_of(m));
}

static int write_copy(struct graph_model *m, int to, struct error *err)
{
    return queue_write(m->site.queue, copy_at(m, to), m->model.buffers.host, bytes_of(m), err);
}

static int make_memory(struct graph_model *m, struct error *err)
{
    void *memory;
    if (m->carried || !m->model.buffers.n)
        return 0;
    int rc = device_memory_new(m->site.device, COPIES * bytes_of(m), &memory, err);
    if (rc)
        return rc;
    m->carried = memory;
    rc = write_copy(m, CONTENT, err);
    if (!rc)
        copy_all(m, WINDOW, CONTENT);
    return rc;
}

int carry_begin(struct graph_model *m, bool trains, struct error *err)
{
    int rc = make_memory(m, err);
    if (rc || !m->carried)
        return rc;
    m->run.buffers = copy_at(m, trains ? WINDOW : CONTENT);
    m->run.next = copy_at(m, PASS);
    if (trains)
        copy_all(m, PASS, WINDOW);
    return 0;
}

void carry_end(struct graph_model *m, int64_t samples)
{
    if (!m->carried)
        return;
    copy_all(m, WINDOW, PASS);
    m->model.buffers.samples += samples;
}

static int carry_read(struct wk_model *model, enum buffer_stage stage, struct error *err)
{
    struct graph_model *m = graph_of(model);
    if (!m->carried)
        return 0;
    return queue_read(m->site.queue, model->buffers.host,
                      copy_at(m, stage == BUFFERS_WINDOW ? WINDOW : CONTENT), bytes_of(m), err);
}

static int carry_write(struct wk_model *model, enum buffer_stage stage, struct error *err)
{
    struct graph_model *m = graph_of(model);
    if (!m->carried)
        return 0;
    int rc = write_copy(m, stage == BUFFERS_WINDOW ? WINDOW : CONTENT, err);
    if (!rc && stage == BUFFERS_CONTENT)
        copy_all(m, WINDOW, CONTENT);
    return rc;
}

int carry_leave(struct graph_model *m, struct error *err)
{
    int rc = carry_read(&m->model, BUFFERS_CONTENT, err);
    if (m->carried)
        drop_memory(m);
    return rc;
}

static void carry_keep(struct wk_model *model)
{
    if (graph_of(model)->carried)
        copy_all(graph_of(model), CONTENT, WINDOW);
}

static void carry_drop(struct wk_model *model)
{
    if (graph_of(model)->carried)
        copy_all(graph_of(model), WINDOW, CONTENT);
}

const struct buffer_ops graph_buffer_ops = {
    .reset = carry_reset,
    .read = carry_read,
    .write = carry_write,
    .keep = carry_keep,
    .drop = carry_drop,
};
