/* What a pass enqueues besides copies: the names of its launches, and their arguments. Devices with
 * kernels of their own find them by name (device/device.h); others run what is here and in the
 * table of operations. One thread.
 *
 *     name            arguments    does
 *     row->name       op_args      a kernel of an operation (op_call.h)
 *     GRAPH_CUSTOM    op_args      that of an operation of the program's own
 *     GRAPH_SUM_LOSS  row_args     *sum += from[0] + from[1] + …, in double
 *     GRAPH_SEED      row_args     to[i] = seed, or *seed_at
 *     GRAPH_ADD_SEED  row_args     to[i] += seed, or *seed_at
 *     GRAPH_NOTE      note_args    to[i] = words[i]
 *     GRAPH_ADD       row_args     to[i] += from[i]
 *     GRAPH_TOTAL     total_args   *to = the sum of sums[i] * weights[i] / divisors[i]
 *     GRAPH_WIDEN     type_args    wide[i] = low[i]
 *     GRAPH_NARROW    type_args    low[i] = wide[i], rounded to nearest
 *
 * On a device with kernels of its own there is no GRAPH_CUSTOM: the program's functions enqueue
 * themselves what they do, between the last two (op/custom.h). Those are of such devices only, and
 * so is GRAPH_NOTE: what differs from pass to pass is in the device's memory there.
 */
#ifndef GRAPH_LAUNCHES_H
#define GRAPH_LAUNCHES_H

#include "libworker/device/device.h"
#include "libworker/graph/op_call.h"

#define GRAPH_CUSTOM   "operation of the program"
#define GRAPH_SUM_LOSS "sum a loss"
#define GRAPH_SEED     "begin a gradient"
#define GRAPH_ADD_SEED "begin more of a gradient"
#define GRAPH_NOTE     "note a pass"
#define GRAPH_ADD      "add a gradient"
#define GRAPH_TOTAL    "total the losses"
#define GRAPH_WIDEN    "widen values"
#define GRAPH_NARROW   "narrow values"

struct op_args {
    struct op_pass pass;
    struct op_call call; /* its pass and queue are not set: a kernel sets them */
    bool backward;
    uint8_t zero[3];
    /* Of a plan that asks what is kept (device/kernels.h): OP_IN, OP_OUT bits of what the backward
     * kernel reads, and of gradients that it may have in the compute type. */
    unsigned keeps, narrows;
    bool bends; /* so, too: linear can multiply the gradient of its x by slopes of GELU (bend.h) */
    uint8_t end[3];
};
_Static_assert(sizeof(struct op_args) <= LAUNCH_ARGS_MAX_BYTES, "a launch copies its arguments");
_Static_assert(sizeof(struct op_args) == sizeof(struct op_pass) + sizeof(struct op_call) + 16,
               "no gaps");

/* A few floats in a row. */
struct row_args {
    const struct kernel_table *kernels;
    const float *from;
    float *to;
    double *sum;
    int64_t count;
    double seed;           /* a float's value */
    const double *seed_at; /* in device memory; NULL: seed */
};

/* Words of 8 bytes, of whatever type. */
struct note_args {
    void *to;
    int n;
    uint64_t words[GRAPH_NAMED_MAX];
};

struct total_args {
    const double *sums; /* [n] */
    double *to;
    int n;
    double weights[GRAPH_NAMED_MAX], divisors[GRAPH_NAMED_MAX];
};
_Static_assert(sizeof(struct total_args) <= LAUNCH_ARGS_MAX_BYTES, "a launch copies its arguments");

/* A value in bf16 or f16, and in f32 beside it. */
struct type_args {
    float *wide;
    void *low;
    enum wk_dtype type; /* of low */
    int64_t count;
};

/* The name of the launches of a node's kernels. */
const char *launch_name_of(const struct node *node);

/* What the host's devices run. */
void launch_op(struct queue *queue, const void *args);
void launch_sum_loss(struct queue *queue, const void *args);
void launch_seed(struct queue *queue, const void *args);
void launch_add_seed(struct queue *queue, const void *args);
void launch_add(struct queue *queue, const void *args);
void launch_total(struct queue *queue, const void *args);

#endif
