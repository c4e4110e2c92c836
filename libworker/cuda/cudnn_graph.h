/* A graph of cuDNN's operations, and the plan that runs it. All tensors have four dimensions:
 * [samples, heads, rows, columns]. Sums are in f32.
 *
 *     cudnn_graph_new ─► tensors, operations ─► cudnn_graph_plan ─► cudnn_graph_run, any number
 *
 * A call that fails makes the graph fail: it keeps the first status, and later ones do nothing. So
 * only cudnn_graph_plan reports. The graph owns its descriptors. One thread at a time.
 * Source: NVIDIA's cuDNN backend API, 9.19.
 */
#ifndef CUDA_CUDNN_GRAPH_H
#define CUDA_CUDNN_GRAPH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "libworker/cuda/cudnn_api.h"

enum {
    CUDNN_DIMS = 4,
    CUDNN_TENSORS_MAX = 64,
    CUDNN_OPS_MAX = 32,
    CUDNN_ENGINES_MAX = 8, /* that are tried */
    CUDNN_DESCRIPTORS_MAX = 192,
    CUDNN_BYTES_ALIGN = 16, /* what addresses of tensors are multiples of, at least */
};

/* Where a tensor is: between two operations only, in memory, or a number of the graph. */
enum cudnn_place { CUDNN_BETWEEN, CUDNN_IN_MEMORY, CUDNN_NUMBER };

struct cudnn_tensor {
    cudnnDataType_t type;
    enum cudnn_place place;
    int64_t shape[CUDNN_DIMS];
    int64_t stride[CUDNN_DIMS]; /* all 0: rows are side by side */
    float number;               /* of CUDNN_NUMBER */
};

/* Operands are tensors' numbers; 0 is none. */
struct cudnn_pointwise {
    cudnnPointwiseMode_t mode;
    int axis; /* of GEN_INDEX */
    int x, b, t, y;
};

/* What a plan is for: a GPU by its handle, or by a description, which cannot run. */
struct cudnn_target {
    cudnnHandle_t handle;
    cudnnBackendDescriptor_t description; /* if there is no handle */
};

struct cudnn_graph {
    const struct cudnn_api *api;
    cudnnStatus_t status;
    const char *failed; /* what did */
    int n_tensors, n_ops, n_descriptors;
    cudnnBackendDescriptor_t descriptors[CUDNN_DESCRIPTORS_MAX]; /* all of them */
    cudnnBackendDescriptor_t ops[CUDNN_OPS_MAX];
    cudnnBackendDescriptor_t tensors[CUDNN_TENSORS_MAX]; /* by number, from 1 on */
    enum cudnn_place places[CUDNN_TENSORS_MAX];
    float numbers[CUDNN_TENSORS_MAX];
    cudnnBackendDescriptor_t plan;
    size_t workspace_bytes;
};

/* NULL: no memory. Free with cudnn_graph_free; NULL is fine. */
struct cudnn_graph *cudnn_graph_new(const struct cudnn_api *api);
void cudnn_graph_free(struct cudnn_graph *graph);

/* Its number, which is its unique identifier. */
int cudnn_tensor_add(struct cudnn_graph *graph, const struct cudnn_tensor *tensor);

/* c = a b, in the last two dimensions. Heads of b may be fewer: each is that of a group of a's. */
void cudnn_matmul(struct cudnn_graph *graph, int a, int b, int c);
void cudnn_pointwise(struct cudnn_graph *graph, const struct cudnn_pointwise *op);
void cudnn_reduce(struct cudnn_graph *graph, cudnnReduceTensorOp_t op, int x, int y);
/* y is x with other dimensions: here, rows and columns exchanged. */
void cudnn_reshape(struct cudnn_graph *graph, int x, int y);

/* The first engine that cuDNN proposes and can make a plan of, in about a second. WK_EUNSUPPORTED,
 * with cuDNN's reason: there is none. */
int cudnn_graph_plan(struct cudnn_graph *graph, const struct cudnn_target *target,
                     struct error *err);

/* Enqueue it on the handle's stream. memory[number] is the address of a tensor in memory, and
 * workspace is workspace_bytes of device memory, aligned to 256. */
cudnnStatus_t cudnn_graph_run(const struct cudnn_graph *graph, cudnnHandle_t handle,
                              void *const *memory, void *workspace);

#endif
