/* Trials of the module's kernels without a GPU: they are emulated (emulated.h), at once, in the
 * host's memory. */
#include <stdlib.h>
#include <string.h>

#include "libworker/cuda/op.h"
#include "libworker/cuda/op_list.h"
#include "tests/cuda/emulated/emulated.h"
#include "tests/numeric/graph/harness.h"

#define X(name) extern const struct cuda_op cuda_op_##name;
CUDA_OP_PLAIN(X)
#undef X

static const struct cuda_op *const ops[] = {
#define X(name) &cuda_op_##name,
    CUDA_OP_PLAIN(X)
#undef X
        NULL};

static const struct cuda_op *op_of(const struct op_row *row)
{
    const struct cuda_op *const *op = ops;
    while (*op && strcmp((*op)->name, row->name) != 0)
        op++;
    return *op;
}

/* One, as the GPU has no tables. */
static const struct kernel_table *table(int i)
{
    return i == 0 ? kernel_reference() : NULL;
}

static bool has(const struct op_row *row, bool backward)
{
    const struct cuda_op *op = op_of(row);
    return op && (backward ? op->backward != NULL : op->forward != NULL);
}

static size_t scratch_bytes(const struct op_call *call, bool backward)
{
    const struct cuda_op *op = op_of(call->node->row);
    return op->scratch_bytes ? op->scratch_bytes(call, backward) : 0;
}

static void run(const struct op_call *call, bool backward)
{
    static uint64_t seed;
    const struct cuda_op *op = op_of(call->node->row);
    struct cuda_queue queue = {.scratch = malloc(CUDA_SCRATCH_BYTES)};
    if (!queue.scratch)
        abort();
    memset(queue.scratch, 0xff, CUDA_SCRATCH_BYTES);
    emulated_set_seed(++seed);
    if (backward)
        op->backward(call, &queue);
    else
        op->forward(call, &queue);
    free(queue.scratch);
}

static void keep(struct op_call *call, unsigned *keeps)
{
    const struct cuda_op *op = op_of(call->node->row);
    if (op->keep)
        op->keep(call, keeps);
}

const struct trial_kernels trial_kernels = {
    "cuda", table, has, scratch_bytes, run, NULL, keep,
};
