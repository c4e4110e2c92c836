#include "libworker/cuda/cudnn_graph.h"

#include <stdlib.h>
#include <string.h>

#include <worker/error.h>

#include "common/base/assert.h"

enum { REASON_BYTES = 512 };

static void check(struct cudnn_graph *graph, cudnnStatus_t status, const char *what)
{
    if (status == CUDNN_STATUS_SUCCESS || graph->failed)
        return;
    graph->status = status;
    graph->failed = what;
}

/* An empty descriptor, which the graph owns; NULL if the graph has failed. */
static cudnnBackendDescriptor_t descriptor_add(struct cudnn_graph *graph,
                                               cudnnBackendDescriptorType_t type)
{
    cudnnBackendDescriptor_t descriptor = NULL;
    insist(graph->n_descriptors < CUDNN_DESCRIPTORS_MAX);
    if (graph->failed)
        return NULL;
    check(graph, graph->api->BackendCreateDescriptor(type, &descriptor), "a descriptor");
    if (!graph->failed)
        graph->descriptors[graph->n_descriptors++] = descriptor;
    return graph->failed ? NULL : descriptor;
}

/* What an attribute is set to. */
struct value {
    cudnnBackendAttributeType_t type;
    int64_t count;
    const void *at;
};

static void set_value(struct cudnn_graph *graph, cudnnBackendDescriptor_t to,
                      cudnnBackendAttributeName_t name, const struct value *value)
{
    if (!graph->failed)
        check(graph,
              graph->api->BackendSetAttribute(to, name, value->type, value->count, value->at),
              "an attribute");
}

static void finalize(struct cudnn_graph *graph, cudnnBackendDescriptor_t descriptor,
                     const char *what)
{
    if (!graph->failed)
        check(graph, graph->api->BackendFinalize(descriptor), what);
}

static void set_descriptor(struct cudnn_graph *graph, cudnnBackendDescriptor_t to,
                           cudnnBackendAttributeName_t name, cudnnBackendDescriptor_t from)
{
    set_value(graph, to, name, &(struct value){CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &from});
}

static void set_tensor(struct cudnn_graph *graph, cudnnBackendDescriptor_t to,
                       cudnnBackendAttributeName_t name, int tensor)
{
    insist(tensor >= 0 && tensor <= graph->n_tensors);
    if (tensor)
        set_descriptor(graph, to, name, graph->tensors[tensor]);
}

static void set_type(struct cudnn_graph *graph, cudnnBackendDescriptor_t to,
                     cudnnBackendAttributeName_t name, cudnnDataType_t type)
{
    set_value(graph, to, name, &(struct value){CUDNN_TYPE_DATA_TYPE, 1, &type});
}

struct cudnn_graph *cudnn_graph_new(const struct cudnn_api *api)
{
    struct cudnn_graph *graph = calloc(1, sizeof(*graph));
    if (graph)
        graph->api = api;
    return graph;
}

void cudnn_graph_free(struct cudnn_graph *graph)
{
    if (!graph)
        return;
    for (int i = graph->n_descriptors; i > 0; i--)
        (void)graph->api->BackendDestroyDescriptor(graph->descriptors[i - 1]);
    free(graph);
}

static void strides_of(const struct cudnn_tensor *tensor, int64_t ret[CUDNN_DIMS])
{
    static const int64_t none[CUDNN_DIMS];
    memcpy(ret, tensor->stride, sizeof(none));
    if (memcmp(ret, none, sizeof(none)) != 0)
        return;
    ret[CUDNN_DIMS - 1] = 1;
    for (int i = CUDNN_DIMS - 1; i > 0; i--)
        ret[i - 1] = ret[i] * tensor->shape[i];
}

int cudnn_tensor_add(struct cudnn_graph *graph, const struct cudnn_tensor *tensor)
{
    int number = ++graph->n_tensors;
    int64_t uid = number, align = CUDNN_BYTES_ALIGN, strides[CUDNN_DIMS];
    bool between = tensor->place == CUDNN_BETWEEN, by_value = tensor->place == CUDNN_NUMBER;
    insist(number < CUDNN_TENSORS_MAX);
    cudnnBackendDescriptor_t to = descriptor_add(graph, CUDNN_BACKEND_TENSOR_DESCRIPTOR);
    strides_of(tensor, strides);
    set_type(graph, to, CUDNN_ATTR_TENSOR_DATA_TYPE, tensor->type);
    set_value(graph, to, CUDNN_ATTR_TENSOR_DIMENSIONS,
              &(struct value){CUDNN_TYPE_INT64, CUDNN_DIMS, tensor->shape});
    set_value(graph, to, CUDNN_ATTR_TENSOR_STRIDES,
              &(struct value){CUDNN_TYPE_INT64, CUDNN_DIMS, strides});
    set_value(graph, to, CUDNN_ATTR_TENSOR_UNIQUE_ID, &(struct value){CUDNN_TYPE_INT64, 1, &uid});
    set_value(graph, to, CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT,
              &(struct value){CUDNN_TYPE_INT64, 1, &align});
    set_value(graph, to, CUDNN_ATTR_TENSOR_IS_VIRTUAL,
              &(struct value){CUDNN_TYPE_BOOLEAN, 1, &between});
    set_value(graph, to, CUDNN_ATTR_TENSOR_IS_BY_VALUE,
              &(struct value){CUDNN_TYPE_BOOLEAN, 1, &by_value});
    finalize(graph, to, "a tensor");
    graph->tensors[number] = to;
    graph->places[number] = tensor->place;
    graph->numbers[number] = tensor->number;
    return number;
}

static cudnnBackendDescriptor_t op_add(struct cudnn_graph *graph, cudnnBackendDescriptorType_t type)
{
    insist(graph->n_ops < CUDNN_OPS_MAX);
    cudnnBackendDescriptor_t op = descriptor_add(graph, type);
    graph->ops[graph->n_ops++] = op;
    return op;
}

void cudnn_matmul(struct cudnn_graph *graph, int a, int b, int c)
{
    cudnnBackendDescriptor_t how = descriptor_add(graph, CUDNN_BACKEND_MATMUL_DESCRIPTOR);
    set_type(graph, how, CUDNN_ATTR_MATMUL_COMP_TYPE, CUDNN_DATA_FLOAT);
    finalize(graph, how, "a product's type");
    cudnnBackendDescriptor_t op = op_add(graph, CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR);
    set_tensor(graph, op, CUDNN_ATTR_OPERATION_MATMUL_ADESC, a);
    set_tensor(graph, op, CUDNN_ATTR_OPERATION_MATMUL_BDESC, b);
    set_tensor(graph, op, CUDNN_ATTR_OPERATION_MATMUL_CDESC, c);
    set_descriptor(graph, op, CUDNN_ATTR_OPERATION_MATMUL_DESC, how);
    finalize(graph, op, "a product");
}

void cudnn_pointwise(struct cudnn_graph *graph, const struct cudnn_pointwise *p)
{
    bool compares = p->mode == CUDNN_POINTWISE_CMP_GE;
    int64_t axis = p->axis;
    cudnnBackendDescriptor_t how = descriptor_add(graph, CUDNN_BACKEND_POINTWISE_DESCRIPTOR);
    set_value(graph, how, CUDNN_ATTR_POINTWISE_MODE,
              &(struct value){CUDNN_TYPE_POINTWISE_MODE, 1, &p->mode});
    set_type(graph, how, CUDNN_ATTR_POINTWISE_MATH_PREC,
             compares ? CUDNN_DATA_BOOLEAN : CUDNN_DATA_FLOAT);
    if (p->mode == CUDNN_POINTWISE_GEN_INDEX)
        set_value(graph, how, CUDNN_ATTR_POINTWISE_AXIS,
                  &(struct value){CUDNN_TYPE_INT64, 1, &axis});
    finalize(graph, how, "a function of elements");
    cudnnBackendDescriptor_t op = op_add(graph, CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR);
    set_descriptor(graph, op, CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR, how);
    set_tensor(graph, op, CUDNN_ATTR_OPERATION_POINTWISE_XDESC, p->x);
    set_tensor(graph, op, CUDNN_ATTR_OPERATION_POINTWISE_BDESC, p->b);
    set_tensor(graph, op, CUDNN_ATTR_OPERATION_POINTWISE_TDESC, p->t);
    set_tensor(graph, op, CUDNN_ATTR_OPERATION_POINTWISE_YDESC, p->y);
    finalize(graph, op, "an operation of elements");
}

void cudnn_reduce(struct cudnn_graph *graph, cudnnReduceTensorOp_t operation, int x, int y)
{
    cudnnBackendDescriptor_t how = descriptor_add(graph, CUDNN_BACKEND_REDUCTION_DESCRIPTOR);
    set_value(graph, how, CUDNN_ATTR_REDUCTION_OPERATOR,
              &(struct value){CUDNN_TYPE_REDUCTION_OPERATOR_TYPE, 1, &operation});
    set_type(graph, how, CUDNN_ATTR_REDUCTION_COMP_TYPE, CUDNN_DATA_FLOAT);
    finalize(graph, how, "a reduction's type");
    cudnnBackendDescriptor_t op = op_add(graph, CUDNN_BACKEND_OPERATION_REDUCTION_DESCRIPTOR);
    set_tensor(graph, op, CUDNN_ATTR_OPERATION_REDUCTION_XDESC, x);
    set_tensor(graph, op, CUDNN_ATTR_OPERATION_REDUCTION_YDESC, y);
    set_descriptor(graph, op, CUDNN_ATTR_OPERATION_REDUCTION_DESC, how);
    finalize(graph, op, "a reduction");
}

void cudnn_reshape(struct cudnn_graph *graph, int x, int y)
{
    cudnnBackendDescriptor_t op = op_add(graph, CUDNN_BACKEND_OPERATION_RESHAPE_DESCRIPTOR);
    set_tensor(graph, op, CUDNN_ATTR_OPERATION_RESHAPE_XDESC, x);
    set_tensor(graph, op, CUDNN_ATTR_OPERATION_RESHAPE_YDESC, y);
    finalize(graph, op, "a reshape");
}

static cudnnBackendDescriptor_t operations_close(struct cudnn_graph *graph,
                                                 const struct cudnn_target *target)
{
    cudnnBackendDescriptor_t all = descriptor_add(graph, CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR);
    set_value(graph, all, CUDNN_ATTR_OPERATIONGRAPH_OPS,
              &(struct value){CUDNN_TYPE_BACKEND_DESCRIPTOR, graph->n_ops, graph->ops});
    if (target->handle)
        set_value(graph, all, CUDNN_ATTR_OPERATIONGRAPH_HANDLE,
                  &(struct value){CUDNN_TYPE_HANDLE, 1, &target->handle});
    finalize(graph, all, "the graph");
    return all;
}

/* cuDNN's proposals, best first. Returns how many of ret it filled. */
static int64_t engines_ask(struct cudnn_graph *graph, const struct cudnn_target *target,
                           cudnnBackendDescriptor_t all, cudnnBackendDescriptor_t *ret)
{
    cudnnBackendHeurMode_t mode = CUDNN_HEUR_MODE_A;
    int64_t count = 0;
    cudnnBackendDescriptor_t ask = descriptor_add(graph, CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR);
    set_descriptor(graph, ask, CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, all);
    set_value(graph, ask, CUDNN_ATTR_ENGINEHEUR_MODE,
              &(struct value){CUDNN_TYPE_HEUR_MODE, 1, &mode});
    if (target->description)
        set_descriptor(graph, ask, CUDNN_ATTR_ENGINEHEUR_DEVICEPROP, target->description);
    finalize(graph, ask, "proposals of engines");
    for (int i = 0; i < CUDNN_ENGINES_MAX; i++)
        ret[i] = descriptor_add(graph, CUDNN_BACKEND_ENGINECFG_DESCRIPTOR);
    if (!graph->failed)
        check(graph,
              graph->api->BackendGetAttribute(ask, CUDNN_ATTR_ENGINEHEUR_RESULTS,
                                              CUDNN_TYPE_BACKEND_DESCRIPTOR, CUDNN_ENGINES_MAX,
                                              &count, ret),
              "proposals of engines");
    if (!graph->failed && count == 0)
        check(graph, CUDNN_STATUS_NOT_SUPPORTED, "proposals of engines");
    return graph->failed ? 0 : count < CUDNN_ENGINES_MAX ? count : CUDNN_ENGINES_MAX;
}

static cudnnBackendDescriptor_t plan_make(struct cudnn_graph *graph,
                                          const struct cudnn_target *target,
                                          cudnnBackendDescriptor_t proposal)
{
    int64_t bytes = 0, count = 0;
    cudnnBackendDescriptor_t plan = descriptor_add(graph, CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR);
    set_descriptor(graph, plan, CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, proposal);
    if (target->handle)
        set_value(graph, plan, CUDNN_ATTR_EXECUTION_PLAN_HANDLE,
                  &(struct value){CUDNN_TYPE_HANDLE, 1, &target->handle});
    if (target->description)
        set_descriptor(graph, plan, CUDNN_ATTR_EXECUTION_PLAN_DEVICEPROP, target->description);
    finalize(graph, plan, "a plan");
    if (!graph->failed)
        check(graph,
              graph->api->BackendGetAttribute(plan, CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE,
                                              CUDNN_TYPE_INT64, 1, &count, &bytes),
              "a plan's workspace");
    graph->workspace_bytes = (size_t)bytes;
    return plan;
}

static void plans_try(struct cudnn_graph *graph, const struct cudnn_target *target)
{
    cudnnBackendDescriptor_t engines[CUDNN_ENGINES_MAX];
    cudnnBackendDescriptor_t all = operations_close(graph, target);
    int64_t n = engines_ask(graph, target, all, engines);
    for (int64_t i = 0; i < n && !graph->plan; i++) {
        graph->failed = NULL; /* of the engine before */
        cudnnBackendDescriptor_t plan = plan_make(graph, target, engines[i]);
        if (!graph->failed)
            graph->plan = plan;
    }
}

int cudnn_graph_plan(struct cudnn_graph *graph, const struct cudnn_target *target,
                     struct error *err)
{
    char reason[REASON_BYTES] = "";
    if (!graph->failed)
        plans_try(graph, target);
    if (graph->plan)
        return 0;
    graph->api->GetLastErrorString(reason, sizeof(reason));
    reason[strcspn(reason, "\n")] = '\0';
    return error_set(err, WK_EUNSUPPORTED, "cuDNN refuses %s: %s%s%s", graph->failed,
                     graph->api->GetErrorString(graph->status), *reason ? ": " : "", reason);
}

cudnnStatus_t cudnn_graph_run(const struct cudnn_graph *graph, cudnnHandle_t handle,
                              void *const *memory, void *workspace)
{
    int64_t uids[CUDNN_TENSORS_MAX], n = 0;
    void *at[CUDNN_TENSORS_MAX];
    cudnnBackendDescriptor_t pack = NULL;
    const struct cudnn_api *api = graph->api;
    for (int i = 1; i <= graph->n_tensors; i++) {
        if (graph->places[i] == CUDNN_BETWEEN)
            continue;
        bool number = graph->places[i] == CUDNN_NUMBER;
        uids[n] = i;
        at[n++] = number ? (void *)(uintptr_t)&graph->numbers[i] : memory[i];
    }
    cudnnStatus_t status =
        api->BackendCreateDescriptor(CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR, &pack);
    if (!status)
        status = api->BackendSetAttribute(pack, CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS,
                                          CUDNN_TYPE_INT64, n, uids);
    if (!status)
        status = api->BackendSetAttribute(pack, CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS,
                                          CUDNN_TYPE_VOID_PTR, n, at);
    if (!status)
        status = api->BackendSetAttribute(pack, CUDNN_ATTR_VARIANT_PACK_WORKSPACE,
                                          CUDNN_TYPE_VOID_PTR, 1, &workspace);
    if (!status)
        status = api->BackendFinalize(pack);
    if (!status)
        status = api->BackendExecute(handle, graph->plan, pack);
    if (pack)
        (void)api->BackendDestroyDescriptor(pack);
    return status;
}
