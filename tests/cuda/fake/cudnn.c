/* cuDNN without a GPU: the functions of its backend that the module calls, as a library with their
 * names. It takes what the real one takes of descriptors: attributes of the right type and number,
 * descriptors that are final, graphs in order, all tensors of a graph in the variant pack. Else it
 * has the real one's status. A plan computes the graph that it was given (cudnn_walk.c), as work of
 * its stream.
 *
 * A mistake that the real one does not see ends the program (fake.h): tensors that are not in the
 * device's memory, a number that is, a workspace that is short, descriptors that are left over.
 * FAKE_CUDNN_VERSION is its version. FAKE_CUDNN_FAULT: "create", "engines", "plan", "run" fail. */
#include <stdlib.h>
#include <string.h>

#include "tests/cuda/fake/cudnn_inside.h"
#include "tests/cuda/fake/fake.h"

enum { VERSION = 91900, ENGINE_BYTES = 256, TILE = 128, NONE = -1, ANY_OPERATION = -2 };

struct cudnnContext {
    cudaStream_t stream;
};

static long live, runs;

__attribute__((visibility("default"))) long fake_cudnn_runs(void);
long fake_cudnn_runs(void)
{
    return runs;
}

static bool fails(const char *what)
{
    const char *fault = getenv("FAKE_CUDNN_FAULT");
    return fault && strcmp(fault, what) == 0;
}

/* ---- attributes ---- */

struct rule {
    cudnnBackendDescriptorType_t descriptor;
    cudnnBackendAttributeName_t name;
    cudnnBackendAttributeType_t type;
    int least, most; /* elements; 0: it may be missing */
    int of;          /* the type of descriptors that it has */
};

#define TENSORS CUDNN_BACKEND_TENSOR_DESCRIPTOR
#define PART    CUDNN_TYPE_BACKEND_DESCRIPTOR
static const struct rule rules[] = {
    {TENSORS, CUDNN_ATTR_TENSOR_DATA_TYPE, CUDNN_TYPE_DATA_TYPE, 1, 1, NONE},
    {TENSORS, CUDNN_ATTR_TENSOR_DIMENSIONS, CUDNN_TYPE_INT64, DIMS, DIMS, NONE},
    {TENSORS, CUDNN_ATTR_TENSOR_STRIDES, CUDNN_TYPE_INT64, DIMS, DIMS, NONE},
    {TENSORS, CUDNN_ATTR_TENSOR_UNIQUE_ID, CUDNN_TYPE_INT64, 1, 1, NONE},
    {TENSORS, CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, CUDNN_TYPE_INT64, 1, 1, NONE},
    {TENSORS, CUDNN_ATTR_TENSOR_IS_VIRTUAL, CUDNN_TYPE_BOOLEAN, 0, 1, NONE},
    {TENSORS, CUDNN_ATTR_TENSOR_IS_BY_VALUE, CUDNN_TYPE_BOOLEAN, 0, 1, NONE},
    {CUDNN_BACKEND_MATMUL_DESCRIPTOR, CUDNN_ATTR_MATMUL_COMP_TYPE, CUDNN_TYPE_DATA_TYPE, 1, 1,
     NONE},
    {CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR, CUDNN_ATTR_OPERATION_MATMUL_ADESC, PART, 1, 1,
     TENSORS},
    {CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR, CUDNN_ATTR_OPERATION_MATMUL_BDESC, PART, 1, 1,
     TENSORS},
    {CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR, CUDNN_ATTR_OPERATION_MATMUL_CDESC, PART, 1, 1,
     TENSORS},
    {CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR, CUDNN_ATTR_OPERATION_MATMUL_DESC, PART, 1, 1,
     CUDNN_BACKEND_MATMUL_DESCRIPTOR},
    {CUDNN_BACKEND_POINTWISE_DESCRIPTOR, CUDNN_ATTR_POINTWISE_MODE, CUDNN_TYPE_POINTWISE_MODE, 1, 1,
     NONE},
    {CUDNN_BACKEND_POINTWISE_DESCRIPTOR, CUDNN_ATTR_POINTWISE_MATH_PREC, CUDNN_TYPE_DATA_TYPE, 1, 1,
     NONE},
    {CUDNN_BACKEND_POINTWISE_DESCRIPTOR, CUDNN_ATTR_POINTWISE_AXIS, CUDNN_TYPE_INT64, 0, 1, NONE},
    {CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR, CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR,
     PART, 1, 1, CUDNN_BACKEND_POINTWISE_DESCRIPTOR},
    {CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR, CUDNN_ATTR_OPERATION_POINTWISE_XDESC, PART, 1, 1,
     TENSORS},
    {CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR, CUDNN_ATTR_OPERATION_POINTWISE_BDESC, PART, 0, 1,
     TENSORS},
    {CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR, CUDNN_ATTR_OPERATION_POINTWISE_TDESC, PART, 0, 1,
     TENSORS},
    {CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR, CUDNN_ATTR_OPERATION_POINTWISE_YDESC, PART, 1, 1,
     TENSORS},
    {CUDNN_BACKEND_REDUCTION_DESCRIPTOR, CUDNN_ATTR_REDUCTION_OPERATOR,
     CUDNN_TYPE_REDUCTION_OPERATOR_TYPE, 1, 1, NONE},
    {CUDNN_BACKEND_REDUCTION_DESCRIPTOR, CUDNN_ATTR_REDUCTION_COMP_TYPE, CUDNN_TYPE_DATA_TYPE, 1, 1,
     NONE},
    {CUDNN_BACKEND_OPERATION_REDUCTION_DESCRIPTOR, CUDNN_ATTR_OPERATION_REDUCTION_XDESC, PART, 1, 1,
     TENSORS},
    {CUDNN_BACKEND_OPERATION_REDUCTION_DESCRIPTOR, CUDNN_ATTR_OPERATION_REDUCTION_YDESC, PART, 1, 1,
     TENSORS},
    {CUDNN_BACKEND_OPERATION_REDUCTION_DESCRIPTOR, CUDNN_ATTR_OPERATION_REDUCTION_DESC, PART, 1, 1,
     CUDNN_BACKEND_REDUCTION_DESCRIPTOR},
    {CUDNN_BACKEND_OPERATION_RESHAPE_DESCRIPTOR, CUDNN_ATTR_OPERATION_RESHAPE_XDESC, PART, 1, 1,
     TENSORS},
    {CUDNN_BACKEND_OPERATION_RESHAPE_DESCRIPTOR, CUDNN_ATTR_OPERATION_RESHAPE_YDESC, PART, 1, 1,
     TENSORS},
    {CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR, CUDNN_ATTR_OPERATIONGRAPH_OPS, PART, 1, GRAPH_OPS_MAX,
     ANY_OPERATION},
    {CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR, CUDNN_ATTR_OPERATIONGRAPH_HANDLE, CUDNN_TYPE_HANDLE,
     1, 1, NONE},
    {CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR, CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, PART, 1, 1,
     CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR},
    {CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR, CUDNN_ATTR_ENGINEHEUR_MODE, CUDNN_TYPE_HEUR_MODE, 1, 1,
     NONE},
    /* The real one has an engine there; here it is the graph itself, set by the proposal. */
    {CUDNN_BACKEND_ENGINECFG_DESCRIPTOR, CUDNN_ATTR_ENGINECFG_ENGINE, PART, 1, 1,
     CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR},
    {CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR, CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, PART, 1, 1,
     CUDNN_BACKEND_ENGINECFG_DESCRIPTOR},
    {CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR, CUDNN_ATTR_EXECUTION_PLAN_HANDLE, CUDNN_TYPE_HANDLE,
     1, 1, NONE},
    {CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR, CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, CUDNN_TYPE_INT64, 1,
     UIDS_MAX, NONE},
    {CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR, CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS,
     CUDNN_TYPE_VOID_PTR, 1, UIDS_MAX, NONE},
    {CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR, CUDNN_ATTR_VARIANT_PACK_WORKSPACE, CUDNN_TYPE_VOID_PTR,
     1, 1, NONE},
};
enum { RULES = sizeof(rules) / sizeof(*rules) };

static size_t element_bytes(cudnnBackendAttributeType_t type)
{
    if (type == CUDNN_TYPE_BOOLEAN)
        return sizeof(bool);
    bool wide = type == CUDNN_TYPE_INT64 || type == CUDNN_TYPE_VOID_PTR ||
                type == CUDNN_TYPE_HANDLE || type == CUDNN_TYPE_BACKEND_DESCRIPTOR;
    return wide ? sizeof(int64_t) : sizeof(int32_t);
}

static bool is_operation(const struct descriptor *d)
{
    return d->type == CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR ||
           d->type == CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR ||
           d->type == CUDNN_BACKEND_OPERATION_REDUCTION_DESCRIPTOR ||
           d->type == CUDNN_BACKEND_OPERATION_RESHAPE_DESCRIPTOR;
}

static cudnnStatus_t parts_check(const struct rule *rule, int64_t count, const void *from)
{
    const struct descriptor *const *parts = from;
    for (int64_t i = 0; rule->type == PART && i < count; i++) {
        if (!parts[i])
            return CUDNN_STATUS_BAD_PARAM_NULL_POINTER;
        if (rule->of == ANY_OPERATION ? !is_operation(parts[i]) : (int)parts[i]->type != rule->of)
            return CUDNN_STATUS_BAD_PARAM_DESCRIPTOR_TYPE;
        if (!parts[i]->final)
            return CUDNN_STATUS_BAD_PARAM_NOT_FINALIZED;
    }
    return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnBackendSetAttribute(cudnnBackendDescriptor_t to,
                                       cudnnBackendAttributeName_t name,
                                       cudnnBackendAttributeType_t type, int64_t count,
                                       const void *from)
{
    struct descriptor *d = to;
    const struct rule *rule = NULL;
    for (int i = 0; i < RULES && d; i++) {
        if (rules[i].descriptor == d->type && rules[i].name == name)
            rule = &rules[i];
    }
    if (!d || !from)
        return CUDNN_STATUS_BAD_PARAM_NULL_POINTER;
    if (!rule || rule->type != type)
        return CUDNN_STATUS_BAD_PARAM_ATTRIBUTE_TYPE;
    if (d->final || attribute_of(d, name) || d->n == ATTRIBUTES_MAX)
        return CUDNN_STATUS_BAD_PARAM;
    if (count < 1 || count < rule->least || count > rule->most)
        return CUDNN_STATUS_BAD_PARAM_SIZE_INSUFFICIENT;
    cudnnStatus_t status = parts_check(rule, count, from);
    if (status)
        return status;
    size_t bytes = element_bytes(type) * (size_t)count;
    struct attribute *attribute = &d->attributes[d->n++];
    *attribute = (struct attribute){name, count, malloc(bytes)};
    memcpy(attribute->at, from, bytes);
    return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnBackendCreateDescriptor(cudnnBackendDescriptorType_t type,
                                           cudnnBackendDescriptor_t *ret)
{
    struct descriptor *d = calloc(1, sizeof(*d));
    if (!d)
        return CUDNN_STATUS_INTERNAL_ERROR_HOST_ALLOCATION_FAILED;
    d->type = type;
    live++;
    *ret = d;
    return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnBackendDestroyDescriptor(cudnnBackendDescriptor_t descriptor)
{
    struct descriptor *d = descriptor;
    for (int i = 0; i < d->n; i++)
        free(d->attributes[i].at);
    free(d);
    live--;
    return CUDNN_STATUS_SUCCESS;
}

/* ---- graphs ---- */

static const struct descriptor *op_at(const struct descriptor *graph, int64_t i)
{
    const struct descriptor *const *ops = attribute_of(graph, CUDNN_ATTR_OPERATIONGRAPH_OPS)->at;
    return ops[i];
}

static int64_t ops_of(const struct descriptor *graph)
{
    return attribute_of(graph, CUDNN_ATTR_OPERATIONGRAPH_OPS)->count;
}

/* Identifiers of one tensor each; what is between operations has been written before it is read. */
static cudnnStatus_t graph_check(const struct descriptor *graph)
{
    const struct descriptor *owner[UIDS_MAX] = {NULL};
    bool written[UIDS_MAX] = {false};
    for (int64_t i = 0; i < ops_of(graph); i++) {
        struct operands o = operands_of(op_at(graph, i));
        for (int k = 0; k < 4; k++) {
            const struct descriptor *d = k < 3 ? o.in[k] : o.out;
            if (!d)
                continue;
            struct tensor t = tensor_of(d);
            if (t.uid < 0 || t.uid >= UIDS_MAX)
                return CUDNN_STATUS_BAD_PARAM_OUT_OF_BOUND;
            if (owner[t.uid] &&
                memcmp(&t, &(struct tensor[]){tensor_of(owner[t.uid])}[0], sizeof(t)))
                return CUDNN_STATUS_BAD_PARAM_DUPLICATED_ENTRIES;
            if (k == 3 ? written[t.uid] || t.number : t.between && !written[t.uid])
                return CUDNN_STATUS_NOT_SUPPORTED_GRAPH_PATTERN;
            owner[t.uid] = d;
            written[t.uid] = written[t.uid] || k == 3;
        }
    }
    return CUDNN_STATUS_SUCCESS;
}

/* Tensors of a graph that a variant pack has, by identifier. */
static int64_t graph_bound(const struct descriptor *graph, struct tensor ret[UIDS_MAX])
{
    bool known[UIDS_MAX] = {false};
    int64_t n = 0;
    for (int64_t i = 0; i < ops_of(graph); i++) {
        struct operands o = operands_of(op_at(graph, i));
        for (int k = 0; k < 4; k++) {
            const struct descriptor *d = k < 3 ? o.in[k] : o.out;
            struct tensor t = d ? tensor_of(d) : (struct tensor){.between = true};
            if (t.between || known[t.uid])
                continue;
            known[t.uid] = true;
            ret[n++] = t;
        }
    }
    return n;
}

/* Engines know attention by the number of its operations: forward, backward, without the four of a
 * causal mask. */
static bool graph_has_engine(const struct descriptor *graph)
{
    int64_t n = ops_of(graph);
    return n == 10 || n == 14 || (n >= 17 && n <= 24);
}

/* As cuDNN's on sm_90: gradients of all scores, where it sums in a fixed order; those of keys and
 * values of each head, where heads share them. */
static int64_t workspace_of(const struct descriptor *graph)
{
    struct tensor q = tensor_of(operands_of(op_at(graph, 0)).in[0]);
    int64_t n = ops_of(graph), padded = (q.shape[2] + TILE - 1) / TILE * TILE;
    bool in_order = n == 17 || n == 19 || n == 21 || n == 23;
    int64_t scores = in_order ? padded * padded : 0;
    bool groups = n == 19 || n == 20 || n == 23 || n == 24;
    int64_t shared = groups ? 2 * q.shape[2] * q.shape[3] : 0;
    return ENGINE_BYTES + q.shape[0] * q.shape[1] * (scores + shared) * 2;
}

static const struct descriptor *graph_of_plan(const struct descriptor *plan)
{
    return part_of(part_of(plan, CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG),
                   CUDNN_ATTR_ENGINECFG_ENGINE);
}

static cudnnStatus_t pack_check(const struct descriptor *pack)
{
    return attribute_of(pack, CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS)->count ==
                   attribute_of(pack, CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS)->count
               ? CUDNN_STATUS_SUCCESS
               : CUDNN_STATUS_BAD_PARAM_SIZE_INSUFFICIENT;
}

cudnnStatus_t cudnnBackendFinalize(cudnnBackendDescriptor_t descriptor)
{
    struct descriptor *d = descriptor;
    cudnnStatus_t status = CUDNN_STATUS_SUCCESS;
    if (!d)
        return CUDNN_STATUS_BAD_PARAM_NULL_POINTER;
    for (int i = 0; i < RULES; i++) {
        if (rules[i].descriptor == d->type && rules[i].least && !attribute_of(d, rules[i].name))
            return CUDNN_STATUS_BAD_PARAM;
    }
    if (d->final)
        return CUDNN_STATUS_BAD_PARAM;
    if (is_operation(d))
        status = operation_check(d);
    else if (d->type == CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR)
        status = graph_check(d);
    else if (d->type == CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR)
        status = pack_check(d);
    else if (d->type == CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR && fails("plan"))
        status = CUDNN_STATUS_NOT_SUPPORTED;
    d->final = !status;
    return status;
}

static cudnnStatus_t proposals_get(const struct descriptor *ask, int64_t wanted, int64_t *count,
                                   void *to)
{
    const struct descriptor *graph = part_of(ask, CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH);
    struct descriptor **proposals = to;
    *count = 0;
    if (!graph_has_engine(graph) || fails("engines"))
        return CUDNN_STATUS_SUCCESS;
    if (wanted < 1 || proposals[0]->type != CUDNN_BACKEND_ENGINECFG_DESCRIPTOR)
        return CUDNN_STATUS_BAD_PARAM;
    *count = 1;
    cudnnStatus_t status = cudnnBackendSetAttribute(proposals[0], CUDNN_ATTR_ENGINECFG_ENGINE,
                                                    CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &graph);
    return status ? status : cudnnBackendFinalize(proposals[0]);
}

cudnnStatus_t cudnnBackendGetAttribute(const cudnnBackendDescriptor_t from,
                                       cudnnBackendAttributeName_t name,
                                       cudnnBackendAttributeType_t type, int64_t wanted,
                                       int64_t *count, void *to)
{
    const struct descriptor *d = from;
    if (!d || !d->final)
        return CUDNN_STATUS_BAD_PARAM_NOT_FINALIZED;
    if (name == CUDNN_ATTR_ENGINEHEUR_RESULTS && type == CUDNN_TYPE_BACKEND_DESCRIPTOR)
        return proposals_get(d, wanted, count, to);
    if (name != CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE || type != CUDNN_TYPE_INT64 || wanted != 1)
        return CUDNN_STATUS_BAD_PARAM_ATTRIBUTE_TYPE;
    int64_t bytes = workspace_of(graph_of_plan(d));
    *count = 1;
    memcpy(to, &bytes, sizeof(bytes));
    return CUDNN_STATUS_SUCCESS;
}

/* ---- running ---- */

struct run {
    struct walk walk;
    void *workspace;
    size_t workspace_bytes;
};

/* Nothing stays in the workspace. */
static void run_there(void *arg)
{
    const struct run *run = arg;
    memset(run->workspace, 0xff, run->workspace_bytes);
    walk_run(&run->walk);
    memset(run->workspace, 0xff, run->workspace_bytes);
}

static void memory_check(const struct tensor *t, const void *at)
{
    bool there = fake_is_device(at, t->number ? sizeof(float) : tensor_bytes(t));
    if (t->number && there)
        fake_found("cuDNN's tensor %lld is a number of the host, in the device's memory",
                   (long long)t->uid);
    if (!t->number && !there)
        fake_found("cuDNN's tensor %lld is not in the device's memory, or short",
                   (long long)t->uid);
}

static cudnnStatus_t pack_bind(const struct descriptor *graph, const struct descriptor *pack,
                               struct walk *walk)
{
    struct tensor bound[UIDS_MAX];
    const struct attribute *ids = attribute_of(pack, CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS);
    void *const *at = attribute_of(pack, CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS)->at;
    int64_t n = graph_bound(graph, bound);
    if (n != ids->count)
        return CUDNN_STATUS_BAD_PARAM_SIZE_INSUFFICIENT;
    for (int64_t i = 0; i < n; i++) {
        void *here = NULL;
        for (int64_t k = 0; k < n; k++)
            here = ((const int64_t *)ids->at)[k] == bound[i].uid ? at[k] : here;
        if (!here)
            return CUDNN_STATUS_BAD_PARAM_NULL_POINTER;
        size_t align = bound[i].number ? sizeof(float) : (size_t)bound[i].align;
        if ((uintptr_t)here % align)
            return CUDNN_STATUS_BAD_PARAM_MISALIGNED_POINTER;
        memory_check(&bound[i], here);
        walk->memory[bound[i].uid] = here;
        if (bound[i].number)
            memcpy(&walk->numbers[bound[i].uid], here, sizeof(float));
    }
    return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnBackendExecute(cudnnHandle_t handle, cudnnBackendDescriptor_t plan,
                                  cudnnBackendDescriptor_t pack)
{
    const struct descriptor *p = plan, *v = pack;
    if (!handle || !p->final || !v->final)
        return CUDNN_STATUS_BAD_PARAM_NOT_FINALIZED;
    if (fails("run"))
        return CUDNN_STATUS_EXECUTION_FAILED;
    struct run *run = calloc(1, sizeof(*run));
    run->walk.graph = graph_of_plan(p);
    run->workspace_bytes = (size_t)workspace_of(run->walk.graph);
    memcpy(&run->workspace, attribute_of(v, CUDNN_ATTR_VARIANT_PACK_WORKSPACE)->at, sizeof(void *));
    if (!fake_is_device(run->workspace, run->workspace_bytes))
        fake_found("cuDNN's workspace is not in the device's memory, or short");
    if ((uintptr_t)run->workspace % ENGINE_BYTES)
        fake_found("cuDNN's workspace is not aligned");
    cudnnStatus_t status = pack_bind(run->walk.graph, v, &run->walk);
    struct fake_work work = {"cudnnBackendExecute", run_there, free, run};
    if (status)
        free(run);
    else if (fake_enqueue(handle->stream, &work))
        status = CUDNN_STATUS_EXECUTION_FAILED_CUDART;
    runs += !status;
    return status;
}

/* ---- the library ---- */

size_t cudnnGetVersion(void)
{
    const char *version = getenv("FAKE_CUDNN_VERSION");
    return version ? (size_t)strtoul(version, NULL, 10) : VERSION;
}

const char *cudnnGetErrorString(cudnnStatus_t status)
{
    return status == CUDNN_STATUS_EXECUTION_FAILED ? "CUDNN_STATUS_EXECUTION_FAILED"
                                                   : "CUDNN_STATUS";
}

void cudnnGetLastErrorString(char *message, size_t max_size)
{
    if (max_size)
        message[0] = '\0';
}

cudnnStatus_t cudnnCreate(cudnnHandle_t *handle)
{
    if (fails("create"))
        return CUDNN_STATUS_NOT_INITIALIZED;
    *handle = calloc(1, sizeof(**handle));
    return *handle ? CUDNN_STATUS_SUCCESS : CUDNN_STATUS_INTERNAL_ERROR_HOST_ALLOCATION_FAILED;
}

cudnnStatus_t cudnnDestroy(cudnnHandle_t handle)
{
    if (live)
        fake_found("cuDNN ends, and %ld descriptors are left", live);
    free(handle);
    return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnSetStream(cudnnHandle_t handle, cudaStream_t stream)
{
    handle->stream = stream;
    return CUDNN_STATUS_SUCCESS;
}
