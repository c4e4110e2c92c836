#include "libworker/cuda/cudnn.h"

#include <stdlib.h>
#include <string.h>

#include <worker/error.h>

#include "common/base/str.h"
#include "libworker/device/device.h"

_Static_assert(sizeof(struct cudnn_attention) ==
                   9 * sizeof(int64_t) + sizeof(float) + 5 * sizeof(int32_t),
               "keys have no gaps");

struct shape {
    struct cudnn_attention key;
    struct cudnn_graph *plan; /* NULL: refused */
    char why[CUDNN_WHY_BYTES];
};

struct cudnn {
    struct cudnn_api api; /* version 0: there is none */
    struct error why;     /* then */
    cudnnHandle_t handle; /* made with the first plan */
    int n;
    struct shape shapes[CUDNN_PLANS_MAX];
};

static void cudnn_close(struct cuda_device *device)
{
    struct cudnn *cudnn = device->cudnn;
    for (int i = 0; i < cudnn->n; i++)
        cudnn_graph_free(cudnn->shapes[i].plan);
    if (cudnn->handle)
        (void)cudnn->api.Destroy(cudnn->handle);
    free(cudnn);
    device->cudnn = NULL;
}

/* NULL: no memory. */
static struct cudnn *cudnn_open(struct cuda_device *device)
{
    if (device->cudnn)
        return device->cudnn;
    struct cudnn *cudnn = calloc(1, sizeof(*cudnn));
    if (!cudnn)
        return NULL;
    device->cudnn = cudnn;
    device->cudnn_close = cudnn_close;
    if (cudnn_api_open(&cudnn->api, &cudnn->why))
        cudnn->api.version = 0;
    return cudnn;
}

int cudnn_version_of(struct cuda_device *device, const char **ret_why)
{
    const struct cudnn *cudnn = cudnn_open(device);
    if (ret_why)
        *ret_why = cudnn ? cudnn->why.text : "no memory for cuDNN";
    return cudnn ? cudnn->api.version : 0;
}

static struct shape *shape_find(struct cuda_device *device, const struct cudnn_attention *attention)
{
    struct cudnn *cudnn = device->cudnn;
    for (int i = 0; cudnn && i < cudnn->n; i++) {
        if (memcmp(&cudnn->shapes[i].key, attention, sizeof(*attention)) == 0)
            return &cudnn->shapes[i];
    }
    return NULL;
}

/* The GPU that the handle is for is the thread's current one. */
static cudnnHandle_t handle_of(struct cuda_device *device, struct cudnn *cudnn)
{
    if (!cudnn->handle && cuda_enter(device) && cudnn->api.Create(&cudnn->handle))
        cudnn->handle = NULL;
    return cudnn->handle;
}

static struct cudnn_graph *plan_new(struct cuda_device *device, struct cudnn *cudnn,
                                    const struct cudnn_attention *attention, struct error *err)
{
    const struct cudnn_target target = {.handle = handle_of(device, cudnn)};
    struct cudnn_graph *graph = target.handle ? cudnn_graph_new(&cudnn->api) : NULL;
    if (!graph) {
        (void)error_set(err, WK_EUNSUPPORTED,
                        target.handle ? "there is no memory for a plan" : "cuDNN gives no handle");
        return NULL;
    }
    cudnn_attention_build(graph, attention);
    if (!cudnn_graph_plan(graph, &target, err))
        return graph;
    cudnn_graph_free(graph);
    return NULL;
}

static void shape_set(struct shape *shape, struct cuda_device *device, struct cudnn *cudnn,
                      const struct cudnn_attention *attention)
{
    struct error err = {0};
    *shape = (struct shape){*attention, plan_new(device, cudnn, attention, &err), ""};
    (void)str_copy(shape->why, sizeof(shape->why), err.text);
}

const struct cudnn_graph *cudnn_plan_prepare(struct cuda_device *device,
                                             const struct cudnn_attention *attention)
{
    struct cudnn *cudnn = cudnn_open(device);
    struct shape *shape = shape_find(device, attention);
    if (!cudnn || !cudnn->api.version || (!shape && cudnn->n == CUDNN_PLANS_MAX))
        return NULL;
    if (!shape) {
        shape = &cudnn->shapes[cudnn->n++];
        shape_set(shape, device, cudnn, attention);
    }
    return shape->plan;
}

const struct cudnn_graph *cudnn_plan_find(struct cuda_device *device,
                                          const struct cudnn_attention *attention)
{
    const struct shape *shape = shape_find(device, attention);
    return shape ? shape->plan : NULL;
}

const char *cudnn_plan_refused(struct cuda_device *device, const struct cudnn_attention *attention)
{
    const struct shape *shape = shape_find(device, attention);
    if (shape)
        return shape->plan ? NULL : shape->why;
    return "cuDNN has plans of as many other shapes as are kept";
}

void cudnn_plan_run(struct cuda_queue *queue, const struct cudnn_graph *plan, void *const *memory,
                    void *workspace)
{
    struct cudnn *cudnn = queue->device->cudnn;
    if (queue->device->base.code)
        return;
    cudnnStatus_t status = cudnn->api.SetStream(cudnn->handle, queue->stream);
    if (!status)
        status = cudnn_graph_run(plan, cudnn->handle, memory, workspace);
    if (status)
        queue_fail(&queue->base, WK_EIO, "cuDNN's attention fails: %s",
                   cudnn->api.GetErrorString(status));
}

struct cudnn_counts cudnn_counted(const struct cuda_device *device)
{
    const struct cudnn *cudnn = device->cudnn;
    struct cudnn_counts counts = {0};
    for (int i = 0; cudnn && i < cudnn->n; i++) {
        if (cudnn->shapes[i].plan)
            counts.plans++;
        else
            counts.refused++;
    }
    return counts;
}
