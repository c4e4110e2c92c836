#include "libworker/graph/launches.h"

#include "libworker/graph/op.h"
#include "libworker/graph/op/custom.h"

const char *launch_name_of(const struct node *node)
{
    return node_is_custom(node) ? GRAPH_CUSTOM : node->row->name;
}

void launch_op(struct queue *queue, const void *args)
{
    const struct op_args *op = args;
    struct op_call call = op->call;
    call.pass = &op->pass;
    call.queue = queue;
    if (op->backward)
        call.node->row->backward(&call);
    else
        call.node->row->forward(&call);
}

/* In double, in the order of the elements. */
void launch_sum_loss(struct queue *queue, const void *args)
{
    const struct row_args *row = args;
    double sum = 0;
    (void)queue;
    for (int64_t i = 0; i < row->count; i++)
        sum += (double)row->from[i];
    *row->sum += sum;
}

void launch_seed(struct queue *queue, const void *args)
{
    const struct row_args *row = args;
    (void)queue;
    row->kernels->fill(row->to, (float)row->seed, (size_t)row->count);
}

void launch_add_seed(struct queue *queue, const void *args)
{
    const struct row_args *row = args;
    (void)queue;
    for (int64_t i = 0; i < row->count; i++)
        row->to[i] += (float)row->seed;
}

void launch_add(struct queue *queue, const void *args)
{
    const struct row_args *row = args;
    (void)queue;
    row->kernels->add(row->to, row->from, (size_t)row->count);
}

void launch_total(struct queue *queue, const void *args)
{
    const struct total_args *a = args;
    double total = 0;
    (void)queue;
    for (int i = 0; i < a->n; i++)
        total += a->sums[i] * a->weights[i] / a->divisors[i];
    *a->to = total;
}
