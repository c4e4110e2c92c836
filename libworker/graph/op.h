/* The table of operations. A row is everything that is known about one operation: its shape rule,
 * what its backward pass reads, its cost, how it may be cut. Its kernels on the CPU are there, too.
 *
 * An operation is one file in op/: its row, its kernels and the wk_op_ call that builds it. Its
 * line in op_list.h makes it part of the table.
 * op_call.h has the contract of kernels.
 */
#ifndef GRAPH_OP_H
#define GRAPH_OP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/error.h"
#include "libworker/graph/add.h"
#include "libworker/graph/attribute.h"
#include "libworker/graph/op_call.h"
#include "libworker/graph/op_kinds.h"

/* The shape rule's view: the inputs as given, the outputs to be described. */
struct op_signature {
    const struct op_row *row;
    const void *attributes;
    int n_in;
    struct wk_tensor *const *in;
    int n_out;                              /* 1 unless the rule sets more */
    struct wk_tensor out[NODE_OUTPUTS_MAX]; /* type, dims and shape are the rule's to set */
};

#define OP_IN(i)  (1u << (i))
#define OP_OUT(i) (1u << (16 + (i)))

struct op_row {
    const char *name;
    int min_in, max_in;
    unsigned optional; /* inputs that may be NULL: OP_IN bits */
    unsigned cuts;
    const struct op_attribute *attributes; /* those of node->attributes; NULL: there are none */

    /* Check the inputs and describe the outputs. The sentence begins after "operation: ". */
    int (*shape)(struct op_signature *signature, struct error *err);

    /* Values that the backward kernel reads, OP_IN and OP_OUT bits; `keeps_of`, if not NULL,
     * decides by node: what only an unwanted gradient needs is not kept. */
    unsigned keeps;
    unsigned (*keeps_of)(const struct node *node);
    unsigned differentiable; /* inputs that can have a gradient: OP_IN bits */

    /* Inputs that only training reads, and those that it alone does not read: OP_IN bits. They are
     * missing in the other plans, and their nodes too where nothing else needs them. */
    unsigned trained_in, evaluated_in;

    /* Where such an input has the output's shape, its gradient is the output's: no kernel computes
     * it, and d_in is NULL (OP_IN bits). */
    unsigned passes_gradient;

    /* An input of indices, which are checked with each batch: 1 + its number; 0: none. An index is
     * in [0, index_bound), or WK_IGNORED if `index_ignores`. With `index_starts` they are where
     * documents begin (op/starts.h), without a bound, and a batch may lack them. */
    int index_input;
    bool index_ignores, index_starts;
    int64_t (*index_bound)(const struct node *node);

    /* Keyed noise: whether this node drops anything in training. `model`: the model's own share is
     * above 0. A node that drops nothing is left out. NULL for other rows. */
    bool (*drops)(const struct node *node, bool model);

    /* The type of out[0] under bf16 and fp16, where not only products read it. */
    enum op_result result;

    unsigned factors; /* inputs that are factors of products, rounded to the compute type */

    /* Decoding computes the positions that follow earlier ones. A row with OP_CUT_LENGTH can.
     * For others `decode_refusal` is why this node cannot, NULL if it can. A row without either
     * cannot. */
    const char *(*decode_refusal)(const struct node *node);
    /* Elements of each position that it keeps for later ones; NULL: none. */
    int64_t (*cache_width)(const struct node *node);

    bool converts; /* out[0] is in[0] in another type */
    bool any_type; /* inputs are read in the type of the batch: nothing is converted for it */

    /* A collective instead of kernels (run.h): in[0] and the gradient of out[0] are in f32. It is
     * never computed again. */
    enum op_meeting meets;

    bool after_add; /* a sum and this operation of it may be one launch (join.h) */
    bool view;      /* out[0] is in[0]'s memory in another shape: no forward kernel */
    bool in_place;  /* out[0] may be in[0]'s memory where nothing else needs it */

    size_t (*scratch_bytes)(const struct op_call *call, bool backward);           /* NULL: none */
    void (*cost)(const struct op_call *call, bool backward, struct op_cost *ret); /* NULL: bytes */

    void (*forward)(const struct op_call *call);
    void (*backward)(const struct op_call *call);
};

/* Rows that passes over a graph know by name. linear reads x, three weights, bias, residual. Where
 * a plan has set it, x is the GELU of LINEAR_SLOPES. Only the backward kernel reads that (bend.h).
 */
extern const struct op_row op_linear, op_add, op_prefix, op_gelu;
enum { LINEAR_WEIGHTS = 1, LINEAR_BIAS = 4, LINEAR_RESIDUAL = 5, LINEAR_SLOPES = 6 };

/* Values that the node's backward kernel reads: OP_IN and OP_OUT bits. */
unsigned op_keeps(const struct node *node);

/* What a product of inputs a and b keeps: each for the gradient of the other. */
unsigned op_product_keeps(const struct node *node, int a, int b);

/* The table, in the order of op_list.h. NULL past the last. */
const struct op_row *op_row_at(int i);

#endif
