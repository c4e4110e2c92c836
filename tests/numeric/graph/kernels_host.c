/* Trials of the kernels that run on the CPU: the table's own. */
#include "tests/numeric/graph/harness.h"

static bool has(const struct op_row *row, bool backward)
{
    return backward ? row->backward != NULL : row->forward != NULL;
}

static size_t scratch_bytes(const struct op_call *call, bool backward)
{
    const struct op_row *row = call->node->row;
    return row->scratch_bytes ? row->scratch_bytes(call, backward) : 0;
}

static void run(const struct op_call *call, bool backward)
{
    const struct op_row *row = call->node->row;
    if (backward)
        row->backward(call);
    else
        row->forward(call);
}

const struct trial_kernels trial_kernels = {
    "cpu", kernel_cpu_variant, has, scratch_bytes, run, NULL, NULL,
};
