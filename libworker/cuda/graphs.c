/* Graphs of work (device/replay_ops.h): what a stream is given while it is captured. Only errors of
 * other threads' calls are theirs, so those may allocate meanwhile. */
#include "libworker/cuda/graphs.h"

#include <stdlib.h>

#include <worker/error.h>

struct device_graph {
    cudaGraphExec_t exec;
};

static int refuse_graph(cudaError_t rc, const char *what, struct error *err)
{
    (void)cudaGetLastError();
    return error_set(err, rc == cudaErrorMemoryAllocation ? WK_ENOMEM : WK_EIO, "%s: %s (%s)", what,
                     cudaGetErrorString(rc), cudaGetErrorName(rc));
}

static int capture_begin(struct queue *base, struct error *err)
{
    struct cuda_queue *queue = cuda_queue_of(base);
    if (!cuda_enter(queue->device))
        return device_failure(base->device, err);
    cudaError_t rc = cudaStreamBeginCapture(queue->stream, cudaStreamCaptureModeThreadLocal);
    if (rc != cudaSuccess)
        return refuse_graph(rc, "begin a capture", err);
    queue->device->captures = true;
    queue->device->capture_error = cudaSuccess;
    return 0;
}

static int instantiate(cudaGraph_t captured, struct device_graph **ret, struct error *err)
{
    struct device_graph *graph = calloc(1, sizeof(*graph));
    if (!graph)
        return error_set(err, WK_ENOMEM, "no memory for a graph");
    cudaError_t rc = cudaGraphInstantiate(&graph->exec, captured, 0);
    if (rc == cudaSuccess) {
        *ret = graph;
        return 0;
    }
    free(graph);
    return refuse_graph(rc, "make a graph", err);
}

static int capture_end(struct queue *base, struct device_graph **ret, struct error *err)
{
    struct cuda_queue *queue = cuda_queue_of(base);
    cudaGraph_t captured = NULL;
    cudaError_t rc = cudaStreamEndCapture(queue->stream, &captured);
    queue->device->captures = false;
    /* The first error, not that the capture is invalid since then. */
    cudaError_t first = queue->device->capture_error;
    int code = first != cudaSuccess ? refuse_graph(first, "capture work", err)
               : rc != cudaSuccess  ? refuse_graph(rc, "end a capture", err)
                                    : instantiate(captured, ret, err);
    if (captured)
        (void)cudaGraphDestroy(captured);
    return code;
}

static void enqueue_graph(struct queue *base, struct device_graph *graph)
{
    struct cuda_queue *queue = cuda_queue_of(base);
    if (cuda_enter(queue->device))
        (void)cuda_check(queue, cudaGraphLaunch(graph->exec, queue->stream), "launch a graph");
}

static void free_graph(struct queue *base, struct device_graph *graph)
{
    (void)cudaSetDevice(cuda_queue_of(base)->device->number);
    (void)cudaGraphExecDestroy(graph->exec);
    (void)cudaGetLastError();
    free(graph);
}

const struct replay_ops cuda_replays = {
    .capture_begin = capture_begin,
    .capture_end = capture_end,
    .enqueue = enqueue_graph,
    .free = free_graph,
};
