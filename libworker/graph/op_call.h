/* What a kernel of an operation gets: its tensors, and what the pass is about.
 *
 * Kernels run on the thread that runs the plan and return no number to the host. They touch only
 * what the call hands them: out, d_in, scratch and the pass' own positions of the cache are
 * written, the rest is read. They allocate nothing and never fail: what can be wrong was refused
 * when the graph was built or the batch was checked. A size may be 0: then there is nothing to do.
 * Only the program's own kernels may fail (op/custom.h).
 */
#ifndef GRAPH_OP_CALL_H
#define GRAPH_OP_CALL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "libworker/graph/graph.h"
#include "libworker/graph/keys.h"
#include "libworker/kernel/kernel.h"

struct queue;

/* Launches are compared by the bytes of their arguments (device/replay.h). So there is nothing
 * between the members of these structs: `zero` is 0. */

/* A tensor as a kernel meets it. */
struct op_tensor {
    void *data; /* NULL: an optional input is missing, or a gradient is not wanted */
    enum wk_dtype type;
    int dims;
    int64_t shape[WK_TENSOR_DIMS_MAX];
    int64_t count; /* product of shape */
    bool add;      /* of d_in: add to what is there; else overwrite all of it */
    uint8_t zero[7];
};

/* What a pass is about, the same for all of its calls. */
struct op_pass {
    const struct kernel_table *kernels;
    const char *device;       /* its kernels run: "cpu" */
    struct kernel_room *room; /* for products in bf16 and f16; NULL in f32 */
    bool trains;              /* dropout drops, running statistics are measured */
    uint8_t zero[7];
    int64_t samples;            /* of this pass */
    int64_t first_sample;       /* global number of the first of them */
    uint64_t seed;              /* of keyed noise, for this model and step */
    const struct op_keys *keys; /* in device memory, and the two above are 0; NULL: they count */
    double dropout;             /* the model's share */
    double smoothing;           /* the model's label smoothing */
    int64_t past;               /* decoding: positions before the first of this pass */
};

struct op_call {
    const struct node *node;
    const struct op_pass *pass;
    struct queue *queue;   /* that it runs on */
    enum wk_dtype compute; /* factors of products: f32, bf16 or f16; sums are in f32 */
    uint32_t zero;
    /* Backward: without data where the row does not keep it (op_keeps); its shape is there. */
    struct op_tensor in[NODE_INPUTS_MAX], out[NODE_OUTPUTS_MAX];
    /* Backward: of the input's shape, and of out[0]'s; f32, or `compute` where a device has it. */
    struct op_tensor d_in[NODE_INPUTS_MAX], d_out;
    struct op_tensor cache; /* decoding, row->cache_width: [capacity, samples, width], of which the
                             * first `past` positions are there; else dims 0 */
    void *scratch;          /* aligned for vectors; row->scratch_bytes of it */
};

enum { OP_CALL_TENSORS = 2 * NODE_INPUTS_MAX + NODE_OUTPUTS_MAX + 2 };
_Static_assert(sizeof(struct op_tensor) == (3 + WK_TENSOR_DIMS_MAX) * 8 + 8, "no gaps");
_Static_assert(sizeof(struct op_pass) == 11 * 8, "no gaps");
_Static_assert(sizeof(struct op_call) == 5 * 8 + OP_CALL_TENSORS * sizeof(struct op_tensor),
               "no gaps");

#endif
