/* An operation of the program's own inside a graph (worker/graph.h): its shape, and a forward and a
 * backward function for each kind of device. It trains under every strategy and precision, with
 * recomputation, as ours do.
 *
 *       static int prelu_forward(struct wk_op_call *call)         // y = x, or slope x below 0
 *       {
 *           const float *x = call->in[0].data, *slope = call->in[1].data;
 *           float *y = call->out[0].data;
 *           for (int64_t i = 0; i < call->out[0].count; i++)
 *               y[i] = x[i] < 0 ? slope[0] * x[i] : x[i];
 *           return 0;
 *       }
 *
 *       struct wk_custom_op prelu = {.name = "prelu", .result = {.like = x},
 *                                    .functions = {{"cpu", prelu_forward, prelu_backward}}};
 *       y = wk_op_custom((struct wk_tensor *[]){x, slope}, 2, &prelu);
 *
 * Functions return 0. An error is `return wk_op_fail(call, "…")`, which ends the training on this
 * rank with the operation's name and this sentence; other non-zero results do so, too.
 *
 *   forward   writes every element of all `out`. It may be called again for the backward pass, and
 *             must then write the same. A sample's result must not depend on the other samples.
 *   backward  adds to every d_in with data: zeros at first, or the gradients of other uses. A
 *             gradient is linear in d_out, which may be multiplied by a loss scale.
 *
 * Memory. Tensors are row-major without gaps, aligned to an element; `scratch` to 64 bytes. They
 * are valid during the call. Only out, d_in and scratch are written. No two overlap, except that an
 * input given twice is the same memory, and so is its gradient.
 *
 * GPUs. A function for "cuda" enqueues kernels on `stream`, a cudaStream_t, and waits for nothing.
 * Its GPU is the thread's current one. Tensors and `scratch` are memory of the GPU. It checks its
 * launches itself (cudaGetLastError). In bf16 and f16 libworker enqueues the conversions around it.
 *
 * Threads. Passes call one function at a time, on the thread that calls wk_forward, wk_backward or
 * wk_evaluate. Models on other threads may call the same function at that time. A function may use
 * threads that are done before it returns. It calls nothing of libworker but wk_op_fail.
 */
#ifndef WORKER_CUSTOM_OP_H
#define WORKER_CUSTOM_OP_H

#include <worker/graph.h>

#ifdef __cplusplus
extern "C" {
#endif

enum {
    WK_OP_INPUTS_MAX = 8,
    WK_OP_SAVED_MAX = 2,
    WK_OP_DEVICES_MAX = 4,
    WK_OP_TEXT_MAX = 160,
};

/* Bits for the options below. OUT(0) is the result, OUT(1) and OUT(2) are what forward saves. */
#define WK_OP_IN(i)   (1u << (i))
#define WK_OP_OUT(i)  (1u << (16 + (i)))
#define WK_OP_NOTHING (1u << 31)

struct wk_op_tensor {
    void *data;
    enum wk_dtype type;
    int dims;
    int64_t shape[WK_TENSOR_DIMS_MAX];
    int64_t count; /* product of shape */
};

struct wk_op_call {
    void *user; /* wk_custom_op.user */
    /* Of backward, those that it does not keep have data NULL. */
    struct wk_op_tensor in[WK_OP_INPUTS_MAX], out[1 + WK_OP_SAVED_MAX];
    /* Backward, f32: of the result; of each input, data NULL where none is wanted. */
    struct wk_op_tensor d_out, d_in[WK_OP_INPUTS_MAX];
    void *scratch;
    int64_t samples;           /* of this pass */
    int64_t first_sample;      /* the global number of the first of them */
    int64_t past;              /* decoding: positions before the first of this pass; else 0 */
    bool trains;               /* not an evaluation */
    void *stream;              /* of the device, for what a function enqueues; NULL for "cpu" */
    char text[WK_OP_TEXT_MAX]; /* of wk_op_fail */
};

/* The functions for one kind of device: "cpu", "cuda". `backward` may be NULL where no gradient
 * is needed. */
struct wk_op_functions {
    const char *device;
    int (*forward)(struct wk_op_call *call);
    int (*backward)(struct wk_op_call *call);
};

/* A shape as of wk_graph_input, or that of a tensor. */
struct wk_op_value {
    struct wk_shape shape;
    const struct wk_tensor *like; /* not NULL: its shape */
    enum wk_dtype type;
};

struct wk_custom_op {
    const char *name; /* 1 to 95 bytes, for messages and tables */
    struct wk_op_functions functions[WK_OP_DEVICES_MAX]; /* device NULL ends the list */
    struct wk_op_value result;                 /* f32; counts the samples if an input does */
    struct wk_op_value saved[WK_OP_SAVED_MAX]; /* forward's for backward, of any type */
    int n_saved;
    unsigned keeps;     /* what backward reads: IN and OUT bits, or WK_OP_NOTHING; 0: all */
    unsigned constants; /* inputs that get no gradient; inputs that are no floats get none anyway */
    /* IN and OUT bits of what functions read and write in the type in which it is kept. All else
     * in bf16 and f16 is converted from and to f32. */
    unsigned as_kept;
    bool each_position; /* along WK_LENGTH a position does not depend on others: it can decode */
    double flop;        /* of an element of the result, forward; for wk_graph_print. One of at
                         * most 16 may be computed again (wk_model_recompute_by). */
    /* Memory that a function needs while it runs; tensors have shapes and no data. NULL: none. */
    size_t (*scratch_bytes)(const struct wk_op_call *call, bool backward);
    void *user;
    /* NULL, or called once with `user`: when the graph ends, or at once without a graph. */
    void (*free_user)(void *user);
};

/* Add the operation for n inputs, 1 to WK_OP_INPUTS_MAX; parameters may be among them. `op` is
 * copied. Like every operation it returns NULL and leaves a sentence where something does not fit.
 *
 * A pass on a device without functions fails with WK_EUNSUPPORTED. A loss that needs a gradient of
 * an operation without backward is refused by wk_graph_model. */
WK_API struct wk_tensor *wk_op_custom(struct wk_tensor *const *in, int n,
                                      const struct wk_custom_op *op);

/* For a function: keep the sentence, printed as by printf and cut to fit. Returns WK_EINVAL. */
WK_API int wk_op_fail(struct wk_op_call *call, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* For what builds such an operation: refuse x as our operations do. Returns NULL. */
WK_API struct wk_tensor *wk_op_refuse(struct wk_tensor *x, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

#ifdef __cplusplus
}
#endif

#endif
