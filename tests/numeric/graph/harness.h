/* One operation of the table on its own: a graph of one node from given shapes, its tensors in
 * guarded memory, its kernels called directly. And the list of cases that the tests walk.
 *
 * A trial belongs to its test; one thread. Memory that is short ends the test.
 */
#ifndef GRAPH_HARNESS_H
#define GRAPH_HARNESS_H

#include <worker/graph.h>

#include "libworker/graph/op.h"

/* What an input holds. */
enum fill {
    FILL_NORMAL,  /* normal(0, 1) */
    FILL_SHARE,   /* uniform in [0, 1] */
    FILL_INDEX,   /* i32 in [0, bound of the row) */
    FILL_TARGET,  /* the same, every third one WK_IGNORED */
    FILL_EXTREME, /* normal, with large and small values among them */
    FILL_WHOLE,   /* 0 … 200 */
    FILL_STARTS,  /* of documents of two positions */
    FILL_COUNTED, /* normal, then 8: sums of 8 elements */
    FILL_NONE,    /* an optional input that is missing */
};

struct op_input {
    struct wk_shape shape;
    enum fill fill;
    bool param;         /* a parameter of the graph: its gradient is always added to */
    enum wk_dtype type; /* of what is no index and no parameter */
};

struct op_case;

/* What a reference computes from and into; double, row-major, shapes in call->in and call->out. */
struct reference {
    const struct op_case *c;
    const struct op_call *call;
    const double *in[NODE_INPUTS_MAX]; /* NULL where missing */
    double *out;                       /* of out[0] */
    int64_t samples;
};

struct op_case {
    const char *row, *what;
    /* By a public call; options are in `number` and `option`, or the function's own. */
    struct wk_tensor *(*build)(const struct op_case *c, struct wk_tensor *const *in);
    struct op_input in[NODE_INPUTS_MAX]; /* those with 0 dimensions and FILL_NORMAL end the list */
    void (*reference)(const struct reference *r);
    double number;
    int option[6];
    double roundings; /* behind an element of a result, and of a gradient; 0: 8 */
    double slope;     /* further relative error of slopes by differences; 0: 1e-6 */
    double step;      /* of the differences; 0: 1e-4 */
    double terms;  /* size of what cancels in a gradient, where that is above the gradient itself */
    unsigned wide; /* what is in f32 in every plan: OP_IN bits, and OP_OUT(0) */
    bool mixes;    /* a sample's value depends on the others */
};

/* Lists end with a zeroed case. */
extern const struct op_case cases_elements[], cases_shapes[], cases_images[], cases_losses[],
    cases_products[], cases_custom[], cases_batches[];

/* Case i of all lists; NULL past the last. */
const struct op_case *case_at(int i);

struct trial_options {
    const struct kernel_table *kernels; /* NULL: the best */
    int64_t samples;                    /* 0 is an empty batch */
    int64_t length;                     /* 0: 5 */
    int64_t first_sample;               /* global number */
    int64_t first_position, of_length;  /* a piece of the positions of so many; 0: all of them */
    enum wk_dtype in_type, out_type;    /* of values, and of parameters of two or more dimensions */
    enum wk_dtype compute;
    size_t shift;   /* bytes by which each buffer's alignment is off */
    bool in_place;  /* out[0] in the memory of in[0] */
    bool evaluates; /* not training */
};

/* Whose kernels a program's trials run: the program links one of kernels_host.c, which has the
 * rows' own, and a file like it for another device. */
struct trial_kernels {
    const char *device; /* op_pass.device */
    /* Its tables, which differ in bits, as kernel_cpu_variant; NULL past the last. */
    const struct kernel_table *(*table)(int i);
    bool (*has)(const struct op_row *row, bool backward);
    size_t (*scratch_bytes)(const struct op_call *call, bool backward);
    void (*run)(const struct op_call *call, bool backward);
    /* Roundings to a result's low type before its own, of numbers as large as its largest; NULL:
     * there are none. */
    double (*early_roundings)(const struct op_call *call);
    /* What is kept where that is not what the row says (cuda/op.h); NULL: it always is. */
    void (*keep)(struct op_call *call, unsigned *keeps);
};
extern const struct trial_kernels trial_kernels;

struct guarded;

struct trial {
    struct trial_options options;
    const struct op_case *c;
    struct wk_graph *graph;
    struct node *node;
    struct op_pass pass;
    struct op_call call;
    struct guarded *buffers;
    int n_buffers;
};

/* A trial with filled inputs and poisoned outputs. The same case and sizes have the same values;
 * low types hold them rounded. */
struct trial trial_new(const struct op_case *c, const struct trial_options *options);
void trial_free(struct trial *trial);

/* There is a kernel for it: for the forward pass, and for the backward pass if the row has one. */
bool trial_runs(const struct trial *trial);

/* Run a kernel. Scratch has the size that the row states and is poisoned before. Expects guards to
 * be whole and whatever is read only to be as it was. */
void trial_forward(struct trial *trial);
/* d_out is normal, d_in NaN, or ones where it is added to. `wanted` has an OP_IN bit for each input
 * whose gradient is asked for; `add` for those that are added to. */
void trial_backward(struct trial *trial, unsigned wanted, unsigned add);

/* Gradients that a kernel computes for this node: OP_IN bits. Those of parameters. */
unsigned trial_gradients(const struct trial *trial);
unsigned trial_params(const struct trial *trial);
/* Gradients that are the output's, for which no kernel runs. */
unsigned trial_passed(const struct trial *trial);
/* Values that backward reads. */
unsigned trial_keeps(const struct trial *trial);

/* Fill what is not in `keeps` with NaN; take it away. */
void trial_poison(struct trial *trial, unsigned keeps);
void trial_forget(struct trial *trial, unsigned keeps);

/* An element in double, whatever the type. */
double tensor_value(const struct op_tensor *tensor, int64_t i);
void tensor_put(const struct op_tensor *tensor, int64_t i, double value);

/* All of it in double; freed with free. */
double *tensor_doubles(const struct op_tensor *tensor);

/* The result by the case's reference, in double; freed with free. `input` and `element` shift one
 * input's element by `by`; input -1 for none. */
double *trial_reference(const struct trial *trial, int input, int64_t element, double by);

/* The kernels that give an element the same bits whatever lies beside it: a library for products
 * chooses its kernels by the number of rows, so the project's own stand in. */
const struct kernel_table *case_kernels(const struct op_case *c);

/* Where element i of x, shaped as `like`, is in the tensor of all positions. */
int64_t trial_index(const struct trial *trial, const struct op_tensor *x,
                    const struct wk_tensor *like, int64_t i);

/* Largest magnitude. */
double largest_of(const double *x, int64_t count);

/* "row (what)", for messages. */
const char *case_name(const struct op_case *c);

#endif
