/* Trials of the module's operations without a GPU: tensors go to memory of the fake runtime's GPU
 * (fake/fake.h), which the host cannot touch. They come back when the kernels have run there,
 * emulated (emulated/emulated.h). */
#include <stdlib.h>
#include <string.h>

#include "libworker/cuda/op.h"
#include "libworker/cuda/table.h"
#include "tests/cuda/emulated/emulated.h"
#include "tests/cuda/fake/gpu.h"
#include "tests/lib/check.h"
#include "tests/numeric/graph/harness.h"

enum { MOVED_MAX = 32 };

/* Memory of a trial and where it is on the GPU, as far from an aligned address as there. What
 * touches is one: neighbours stay neighbours. */
struct moved {
    char *host, *there, *all;
    size_t bytes;
};

struct stay {
    struct device *device;
    struct queue *queue;
    struct moved moved[MOVED_MAX];
    int n;
};

/* One, as the GPU has no tables. */
static const struct kernel_table *table_at(int i)
{
    return i == 0 ? kernel_reference() : NULL;
}

/* TEST_ROW: the trials of this row alone, as the first error of a real GPU is its last. */
static bool is_asked(const struct op_row *row)
{
    const char *only = getenv("TEST_ROW");
    return !only || strcmp(only, row->name) == 0;
}

static bool has_kernel(const struct op_row *row, bool backward)
{
    const struct cuda_op *op = is_asked(row) ? table_op(row->name) : NULL;
    return op && (backward ? op->backward != NULL : op->forward != NULL);
}

static size_t scratch_bytes(const struct op_call *call, bool backward)
{
    const struct cuda_op *op = table_op(call->node->row->name);
    return op->scratch_bytes ? op->scratch_bytes(call, backward) : 0;
}

static size_t bytes_of(const struct op_tensor *tensor)
{
    return (size_t)tensor->count * wk_dtype_bytes(tensor->type);
}

/* To be moved, together with what it touches. */
static void range_add(struct stay *stay, void *host, size_t bytes)
{
    struct moved new = {.host = host, .bytes = bytes};
    if (!host)
        return;
    for (int i = 0; i < stay->n;) {
        struct moved *m = &stay->moved[i];
        bool touches = m->host <= new.host + new.bytes &&new.host <= m->host + m->bytes;
        char *end =
            m->host + m->bytes > new.host + new.bytes ? m->host + m->bytes : new.host + new.bytes;
        if (touches) {
            new.host = m->host < new.host ? m->host : new.host;
            new.bytes = (size_t)(end - new.host);
            *m = stay->moved[--stay->n];
        }
        i = touches ? 0 : i + 1;
    }
    CHECK(stay->n < MOVED_MAX);
    stay->moved[stay->n++] = new;
}

static size_t shift_of(const struct moved *m)
{
    return (uintptr_t)m->host % DEVICE_ALIGN_BYTES;
}

static void all_there(struct stay *stay)
{
    for (int i = 0; i < stay->n; i++) {
        struct moved *m = &stay->moved[i];
        void *all = NULL;
        CHECK(!device_memory_new(stay->device, shift_of(m) + m->bytes, &all, NULL));
        m->all = all;
        m->there = m->all + shift_of(m);
        CHECK(!queue_write(stay->queue, m->there, m->host, m->bytes, NULL));
    }
}

static void *there_of(const struct stay *stay, void *host)
{
    for (int i = 0; i < stay->n && host; i++) {
        const struct moved *m = &stay->moved[i];
        if (m->host <= (char *)host && (char *)host <= m->host + m->bytes)
            return m->there + ((char *)host - m->host);
    }
    return NULL;
}

static void all_back(struct stay *stay)
{
    struct error err = {0};
    int rc = queue_finish(stay->queue, &err);
    if (rc)
        fprintf(stderr, "%s\n", err.text);
    CHECK(!rc);
    for (int i = 0; i < stay->n; i++) {
        struct moved *m = &stay->moved[i];
        CHECK(!queue_read(stay->queue, m->host, m->there, m->bytes, NULL));
        device_memory_free(stay->device, m->all, shift_of(m) + m->bytes);
    }
}

typedef void tensor_fn(struct stay *stay, struct op_tensor *tensor);

static void each_tensor(struct stay *stay, struct op_call *call, tensor_fn *visit)
{
    for (int i = 0; i < NODE_INPUTS_MAX; i++) {
        visit(stay, &call->in[i]);
        visit(stay, &call->d_in[i]);
    }
    for (int i = 0; i < NODE_OUTPUTS_MAX; i++)
        visit(stay, &call->out[i]);
    visit(stay, &call->d_out);
    visit(stay, &call->cache);
}

static void tensor_add(struct stay *stay, struct op_tensor *tensor)
{
    range_add(stay, tensor->data, bytes_of(tensor));
}

static void tensor_move(struct stay *stay, struct op_tensor *tensor)
{
    tensor->data = there_of(stay, tensor->data);
}

static void run_there(const struct op_call *call, bool backward)
{
    static uint64_t seed;
    const struct cuda_op *op = table_op(call->node->row->name);
    struct fake_options options = gpu_options(++seed);
    struct stay stay = {.device = gpu_new(&options)};
    struct op_call moved = *call;
    size_t scratch = scratch_bytes(call, backward); /* aligned, as in a plan */
    CHECK(!queue_new(stay.device, &stay.queue, NULL));
    each_tensor(&stay, &moved, tensor_add);
    all_there(&stay);
    CHECK(!device_memory_new(stay.device, scratch, &moved.scratch, NULL));
    each_tensor(&stay, &moved, tensor_move);
    moved.queue = stay.queue;
    if (backward)
        op->backward(&moved, cuda_queue_of(stay.queue));
    else
        op->forward(&moved, cuda_queue_of(stay.queue));
    all_back(&stay);
    device_memory_free(stay.device, moved.scratch, scratch);
    queue_free(stay.queue);
    device_free(stay.device);
}

/* The bias and the residual of linear, and the probabilities of attention. */
static double early_roundings(const struct op_call *call)
{
    const char *name = call->node->row->name;
    return strcmp(name, "linear") == 0 || strcmp(name, "attention") == 0 ? 2 : 0;
}

static void keep(struct op_call *call, unsigned *keeps)
{
    const struct cuda_op *op = table_op(call->node->row->name);
    if (op->keep)
        op->keep(call, keeps);
}

const struct trial_kernels trial_kernels = {
    "cuda", table_at, has_kernel, scratch_bytes, run_there, early_roundings, keep,
};
