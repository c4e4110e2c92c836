/* Models as graphs of operations. A program builds a graph once, by plain calls; the library
 * derives the backward pass, lays the memory out and runs it under every strategy.
 *
 *       struct wk_graph *g = wk_graph_new("mlp");
 *       struct wk_tensor *x = wk_graph_input(g, "pixels", WK_F32, WK_SHAPE(WK_SAMPLES, 784));
 *       struct wk_tensor *y = wk_graph_input(g, "label", WK_I32, WK_SHAPE(WK_SAMPLES));
 *       wk_graph_block(g, "hidden");
 *       x = wk_op_relu(wk_layer_linear(x, "fc1", 256));
 *       wk_graph_block(g, "head");
 *       x = wk_layer_linear(x, "fc2", 10);
 *       wk_graph_output(g, "logits", x);
 *       wk_graph_loss(g, "loss", wk_op_cross_entropy(x, y, NULL), NULL);
 *       rc = wk_graph_model(g, &model);
 *
 * Errors. A call that cannot work returns NULL and leaves a sentence in its graph: the operation,
 * the shapes it got and what would fit. The first sentence stays, a call on NULL does nothing, and
 * wk_graph_model returns the error. So a program checks once, at the end.
 *
 * Shapes. A tensor has up to WK_TENSOR_DIMS_MAX dimensions, row-major. Sizes are fixed, except two:
 * WK_SAMPLES, the samples of a batch, and WK_LENGTH, for models of samples with a free length.
 * Both may differ from batch to batch, up to the maximum that the loader and the options set.
 *
 * Types. Parameters, gradients and losses are f32. Under mixed_precision the library chooses the
 * type in which other values are kept; it is no part of a graph.
 *
 * Ownership. A graph owns its tensors; names and shapes are copied. wk_graph_model takes the graph
 * over, also when it fails. One thread per graph; two graphs are independent.
 */
#ifndef WORKER_GRAPH_H
#define WORKER_GRAPH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <worker/export.h>
#include <worker/nn.h>
#include <worker/types.h>

#ifdef __cplusplus
extern "C" {
#endif

struct wk_graph;
struct wk_model;
struct wk_tensor;

enum {
    WK_SAMPLES = -1, /* the samples of a batch */
    WK_LENGTH = -2,  /* the length of its samples */
    WK_REST = -3,    /* in wk_op_reshape: what is left */
    WK_RANKS = -4,   /* the ranks that share the global batch: of what wk_op_all_gather makes */
    WK_TENSOR_DIMS_MAX = 6,
};

/* A shape by value: WK_SHAPE(WK_SAMPLES, 3, 32, 32). Zeroed, it is a scalar's. */
struct wk_shape {
    int dims;
    int64_t size[WK_TENSOR_DIMS_MAX];
};
#ifdef __cplusplus
extern "C++" {
template <typename... Sizes> inline wk_shape wk_shape_of(Sizes... sizes)
{
    wk_shape shape = {static_cast<int>(sizeof...(sizes)), {static_cast<int64_t>(sizes)...}};
    return shape;
}
}
#define WK_SHAPE(...) wk_shape_of(__VA_ARGS__)
#else
#define WK_SHAPE(...)                                                                              \
    ((struct wk_shape){(int)(sizeof((int64_t[]){__VA_ARGS__}) / sizeof(int64_t)), {__VA_ARGS__}})
#endif

/* An empty graph. Its name is the model's kind in messages. NULL only if memory is out. */
WK_API struct wk_graph *wk_graph_new(const char *name);
WK_API void wk_graph_free(struct wk_graph *graph); /* NULL is fine; not after wk_graph_model */

/* The sentence of the first call that failed, or "". */
WK_API const char *wk_graph_error(const struct wk_graph *graph);

/* A value of each batch, by its name and in its type there. "tokens" and "targets" are the i32 of
 * struct wk_batch, unless its tensors have arrays of these names. The first dimension is
 * WK_SAMPLES.
 *
 * Operations compute in f32 and look up by i32. They convert an input that they read: f64, f16,
 * bf16, u8 and bool to f32; as an index i64, u8 and bool to i32. An i32 or i64 that is not an index
 * is converted by wk_op_convert. */
WK_API struct wk_tensor *wk_graph_input(struct wk_graph *graph, const char *name,
                                        enum wk_dtype type, struct wk_shape shape);

/* How a parameter begins and what happens to it. Zeroed: normal(0, 0.02) for two or more
 * dimensions, zeros for one. */
enum wk_init { WK_INIT_DEFAULT, WK_INIT_ZERO, WK_INIT_ONE, WK_INIT_NORMAL, WK_INIT_UNIFORM };
struct wk_param {
    enum wk_init init;
    double scale;  /* standard deviation of NORMAL, bound of UNIFORM [-scale, scale] */
    bool lookup;   /* its rows stand for tokens: an embedding or a head; not Muon's to update */
    bool decay;    /* weight decay applies although it has one dimension */
    bool no_decay; /* no weight decay although it has more */
    bool frozen; /* is not trained: it has no gradient, no optimizer state and no sums over ranks */
};

/* A parameter of a fixed shape. The name is unique, below 96 bytes; it is the tensor's name in
 * checkpoints. `options` NULL is zeroed. */
WK_API struct wk_tensor *wk_graph_param(struct wk_graph *graph, const char *name,
                                        struct wk_shape shape, const struct wk_param *options);

/* With `on` the parameters that are made from now on are frozen, also those of layers. What only
 * leads to frozen ones is left out of the backward pass. They are stored, cut and gathered as the
 * others. The model's own order of parameters has them last. */
WK_API void wk_graph_freeze(struct wk_graph *graph, bool on);

/* A buffer: a value without gradient that is carried from step to step, such as running statistics.
 * It is f32, of a fixed shape, and each element begins as `value`. Its name is unique, also among
 * those of parameters; it is the tensor's in checkpoints and exports.
 *
 * Its content changes only in wk_step, by wk_graph_update. A step that is skipped, given up or made
 * again leaves it as it was. A block that is computed again updates nothing twice. Evaluations read
 * the content as of the last step. A training pass reads what the window's passes before it have
 * left: under accumulation updates follow one another, as torch's do.
 *
 * On several ranks wk_step sets all of them to the mean of the ranks', weighted by the samples of
 * its passes in the window. So they evaluate alike, and what rank 0 saves is every rank's. */
WK_API struct wk_tensor *wk_graph_buffer(struct wk_graph *graph, const char *name,
                                         struct wk_shape shape, double value);

/* A training pass leaves `next` in the buffer: a result in f32 of the buffer's shape, which gets no
 * gradient by this. Once for each buffer. */
WK_API void wk_graph_update(struct wk_graph *graph, struct wk_tensor *buffer,
                            struct wk_tensor *next);

/* Begin a block: an embedding, a layer, a head. Parameters and operations belong to the block in
 * which they were made. A block is what fsdp gathers, recomputation repeats and pipelines cut at.
 * Before the first call there is a block without a name. Names of blocks are unique. */
WK_API void wk_graph_block(struct wk_graph *graph, const char *name);

/* The same for one of several layers: the block's name, printed as by printf, and a dot begin the
 * names of the parameters in it. After wk_graph_scope(g, "layer%d", 3) the call
 * wk_layer_linear(x, "up", 64) makes layer3.up.weight and layer3.up.bias. The next wk_graph_block
 * or wk_graph_scope ends it. */
WK_API void wk_graph_scope(struct wk_graph *graph, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* Keep f32 from here on, or stop doing so. Under mixed_precision, operations that are added
 * meanwhile compute in f32 and their results stay f32. They read values and matrices as these are:
 * a result of a product before them is rounded, and so are parameters of two or more dimensions.
 * Begins off. In float nothing changes. */
WK_API void wk_graph_keep_f32(struct wk_graph *graph, bool on);

/* The largest WK_LENGTH, 1 … 2^20. Without it the length is limited by what the graph does with it
 * (wk_op_prefix). */
WK_API void wk_graph_max_length(struct wk_graph *graph, int64_t length);

/* Name a value that evaluation can ask for. A model with an output "logits" of [samples, length,
 * vocab] can be evaluated and generate text as wk_gpt_new's can. */
WK_API void wk_graph_output(struct wk_graph *graph, const char *name, struct wk_tensor *value);

/* The denominator of a loss: what its sum is divided by.
 *
 *      TARGET    targets that are not WK_IGNORED, of the nearest operation before the loss that
 *                leaves them out (cross-entropy, gather_rows); without one, the batch's denominator
 *      SAMPLE    samples
 *      ELEMENT   elements of `losses`
 *      INPUT     the sum of an input of the batch, such as a mask or weights, at least 0
 *
 * It is counted over all ranks and all batches of an accumulation window, before the first backward
 * pass of the window. So masks that are uneven over ranks and batches have the result of one
 * process with all of these samples. A loss of which nothing counts is 0.
 *
 * Details
 * - Batches of a loader are counted when wk_next deals the first one of a window. TARGET and INPUT
 *   then read the others ahead, and the ranks add up what they counted in one message. Texts,
 *   samples and elements are known without either.
 * - Other batches, and those with arrays that the program changed, are counted by wk_count_batches
 *   (worker/worker.h). Without it a pass divides by what its own batch has: TARGET by
 *   `denominator`, or the targets of this rank's share if that is 0.
 */
enum wk_per { WK_PER_TARGET, WK_PER_SAMPLE, WK_PER_ELEMENT, WK_PER_INPUT };

/* Zeroed: weight 1, per target. */
struct wk_loss {
    double weight; /* 0 counts as 1 */
    enum wk_per per;
    struct wk_tensor *input; /* of WK_PER_INPUT; else NULL */
};

/* Add a loss: the sum of all elements of `losses`, divided by its denominator. What is trained is
 * the sum of all losses by their weights. */
WK_API void wk_graph_loss(struct wk_graph *graph, const char *name, struct wk_tensor *losses,
                          const struct wk_loss *options);

/* A model without memory, as wk_gpt_new makes one. The graph belongs to it, or is freed.
 * WK_EINVAL (wk_last_error(NULL) has the sentence), WK_ENOMEM. */
WK_API int wk_graph_model(struct wk_graph *graph, struct wk_model **ret_model);

/* A table of operations for `samples` of `length` in f32: shape and type of the result, parameters,
 * FLOP and bytes of the forward pass. Above it is the memory of a training pass. WK_EINVAL for a
 * graph with an error, WK_EIO, WK_ENOMEM. */
WK_API int wk_graph_print(const struct wk_graph *graph, int64_t samples, int64_t length, FILE *out);

/* A training pass to print. */
struct wk_graph_pass {
    int64_t samples, length; /* at least 1 */
    enum wk_dtype compute;   /* WK_F32, WK_BF16 or WK_F16: of mixed_precision */
    enum wk_recompute recompute;
    int64_t bytes; /* of WK_RECOMPUTE_WITHIN */
};

/* The same for this pass: the types in which results are kept and products computed, and which
 * operations are computed again. */
WK_API int wk_graph_print_pass(const struct wk_graph *graph, const struct wk_graph_pass *pass,
                               FILE *out);

/* The shape and type of a tensor, for code that builds by what it was given. 0 dimensions for
 * NULL. */
WK_API struct wk_shape wk_tensor_shape(const struct wk_tensor *tensor);
WK_API enum wk_dtype wk_tensor_type(const struct wk_tensor *tensor);

/* ---- Layers: an operation with its parameters, named `name`.weight and `name`.bias ---- */

/* y[…, out] = x[…, in] weight[in, out] + bias[out]. Weights begin uniform in ±1 / sqrt(in), as
 * torch's do; a parameter of one's own with wk_op_linear has its own initial values. */
WK_API struct wk_tensor *wk_layer_linear(struct wk_tensor *x, const char *name, int64_t out);
/* wk_op_layer_norm, wk_op_rms_norm and wk_op_group_norm with an epsilon of 1e-5. */
WK_API struct wk_tensor *wk_layer_norm(struct wk_tensor *x, const char *name);
WK_API struct wk_tensor *wk_layer_rms_norm(struct wk_tensor *x, const char *name);
WK_API struct wk_tensor *wk_layer_group_norm(struct wk_tensor *x, const char *name, int groups);
/* wk_op_batch_norm with `name`.weight and `name`.bias of 1 and 0, and the buffers
 * `name`.running_mean and `name`.running_var. Of `options` everything but the tensors is read; NULL
 * is zeroed. */
struct wk_batch_norm;
WK_API struct wk_tensor *wk_layer_batch_norm(struct wk_tensor *x, const char *name,
                                             const struct wk_batch_norm *options);
WK_API struct wk_tensor *wk_layer_embedding(struct wk_tensor *index, const char *name, int64_t rows,
                                            int64_t width);
/* wk_op_conv2d with a square kernel. Its weights begin as normal(0, sqrt(2 / inputs)) for the
 * inputs of one result (He et al. 2015). */
struct wk_conv_options;
WK_API struct wk_tensor *wk_layer_conv2d(struct wk_tensor *x, const char *name, int64_t out,
                                         int kernel, const struct wk_conv_options *options);
/* Attention of x[samples, length, width] to itself: the linear layers `name`.qkv and `name`.out
 * around wk_op_attention. A head is width / heads. */
struct wk_attention_options;
WK_API struct wk_tensor *wk_layer_attention(struct wk_tensor *x, const char *name,
                                            const struct wk_attention_options *options);

/* ---- Operations ---- */

/* y[…, out] = x[…, in] weight + bias. The weight is [in, out], or [out, in] if `turned`. Several
 * weights have their outputs side by side (queries, keys, values); made one after the other they
 * are multiplied as one. `bias` [out] may be NULL. */
struct wk_linear_weights {
    struct wk_tensor *weight[3]; /* unused ones NULL */
    struct wk_tensor *bias;
    bool turned;
};
WK_API struct wk_tensor *wk_op_linear(struct wk_tensor *x, const struct wk_linear_weights *weights);

/* c[…, m, n] = op(a)[…, m, k] op(b)[…, k, n]: leading dimensions are equal. */
WK_API struct wk_tensor *wk_op_matmul(struct wk_tensor *a, struct wk_tensor *b, bool transpose_a,
                                      bool transpose_b);

/* out[…, width] = table[index[…]]; an index outside the table is refused with the batch. */
WK_API struct wk_tensor *wk_op_embedding(struct wk_tensor *table, struct wk_tensor *index);

/* Over the last dimension: Ba et al. 2016; Zhang and Sennrich 2019, which has no bias. The second
 * parameter of layer norm may be NULL. epsilon > 0. */
WK_API struct wk_tensor *wk_op_layer_norm(struct wk_tensor *x, struct wk_tensor *weight,
                                          struct wk_tensor *bias, double epsilon);
WK_API struct wk_tensor *wk_op_rms_norm(struct wk_tensor *x, struct wk_tensor *weight,
                                        double epsilon);

/* x[samples, channels, …] over groups of channels (Wu and He 2018). */
WK_API struct wk_tensor *wk_op_group_norm(struct wk_tensor *x, struct wk_tensor *weight,
                                          struct wk_tensor *bias, int groups, double epsilon);

/* Over samples and all dimensions but `channels` (Ioffe and Szegedy 2015). In training the mean and
 * variance are the batch's, and the running ones move towards them by `momentum`, as torch's do;
 * evaluation reads the running ones. The batch is each rank's own share of a pass, or with
 * `synchronised` the share of all data-parallel ranks together, for which they meet twice in each
 * direction. A sample's value depends on the others, so it depends on how they are dealt unless
 * synchronised. */
struct wk_batch_norm {
    struct wk_tensor *weight, *bias;   /* [channels]; each may be NULL */
    struct wk_tensor *mean, *variance; /* buffers [channels], which begin as 0 and 1 */
    double momentum, epsilon;          /* 0: 0.1 and 1e-5 */
    int channels;                      /* their dimension; 0: dimension 1 */
    bool synchronised;
};
WK_API struct wk_tensor *wk_op_batch_norm(struct wk_tensor *x, const struct wk_batch_norm *norm);

/* Attention (Vaswani et al. 2017). `qkv` [samples, length, (heads + 2 kv_heads) * size] has
 * queries, keys and values side by side; `heads` queries share `kv_heads` keys and values. */
struct wk_attention_options {
    int heads, kv_heads; /* kv_heads 0: as many */
    bool full;           /* every position sees all; else only itself and those before it */
    int64_t window;      /* 0: none; else only positions less than `window` away */
    double scale;        /* 0: 1 / sqrt(size) */
    /* Packed documents, or NULL: an input [samples, length] of whole numbers with, for each
     * position, the first position of its document. A position sees its own document only. A batch
     * without this input has one document in each sample. */
    struct wk_tensor *starts;
};
WK_API struct wk_tensor *wk_op_attention(struct wk_tensor *qkv,
                                         const struct wk_attention_options *options);

/* Rotary positions (Su et al. 2021, in the layout of HuggingFace's Llama) for the first `heads`
 * vectors of `size` in each row of x[samples, length, width]. theta > 1. */
struct wk_rope_options {
    int heads;
    int64_t size;
    double theta;
    struct wk_rope_scaling scaling;
    struct wk_tensor *starts; /* as in attention: positions count from each document's; or NULL */
};
WK_API struct wk_tensor *wk_op_rope(struct wk_tensor *x, const struct wk_rope_options *options);

/* Elementwise. Dimensions of b are those of a, or 1, or missing on the left: it is repeated. */
WK_API struct wk_tensor *wk_op_add(struct wk_tensor *a, struct wk_tensor *b);
WK_API struct wk_tensor *wk_op_subtract(struct wk_tensor *a, struct wk_tensor *b);
WK_API struct wk_tensor *wk_op_multiply(struct wk_tensor *a, struct wk_tensor *b);
WK_API struct wk_tensor *wk_op_scale(struct wk_tensor *x, double factor);

/* gelu is the tanh formula, gelu_erf the exact one (Hendrycks and Gimpel 2016). */
WK_API struct wk_tensor *wk_op_gelu(struct wk_tensor *x);
WK_API struct wk_tensor *wk_op_gelu_erf(struct wk_tensor *x);
WK_API struct wk_tensor *wk_op_relu(struct wk_tensor *x);
/* x, or slope * x below 0 (Maas et al. 2013); slope > 0. */
WK_API struct wk_tensor *wk_op_leaky_relu(struct wk_tensor *x, double slope);
WK_API struct wk_tensor *wk_op_silu(struct wk_tensor *x);
WK_API struct wk_tensor *wk_op_tanh(struct wk_tensor *x);
WK_API struct wk_tensor *wk_op_sigmoid(struct wk_tensor *x);
/* out[…, n] of x[…, 2 n], gate and up side by side: silu(gate) * up (Shazeer 2020). */
WK_API struct wk_tensor *wk_op_swiglu(struct wk_tensor *x);
/* Over the last dimension. */
WK_API struct wk_tensor *wk_op_softmax(struct wk_tensor *x);

/* Zero a share of the elements in training and divide the rest by what is left (Srivastava et al.
 * 2014). The choice depends on the seed, the sample's global number, the block, the operation's
 * place in it and the element: not on ranks, recomputation or passes. A share below 0 is the
 * model's (wk_model_dropout). */
WK_API struct wk_tensor *wk_op_dropout(struct wk_tensor *x, double share);

/* x[samples, channels, height, width] with weight[out, channels / groups, kernel, kernel]; bias
 * [out] may be NULL. Zeros outside the image. */
struct wk_conv_options {
    int stride, padding, groups; /* 0: 1, 0, 1 */
};
WK_API struct wk_tensor *wk_op_conv2d(struct wk_tensor *x, struct wk_tensor *weight,
                                      struct wk_tensor *bias,
                                      const struct wk_conv_options *options);
/* A maximum sends its gradient to the first of equals; NaN is larger than everything. */
enum wk_reduce { WK_REDUCE_SUM, WK_REDUCE_MEAN, WK_REDUCE_MAX };
/* As torch's MaxPool2d and AvgPool2d by default: a mean counts the padding's zeros, a maximum does
 * not see them. */
struct wk_pool_options {
    enum wk_reduce kind;         /* MEAN or MAX */
    int kernel, stride, padding; /* stride 0: kernel; padding is at most half the kernel */
};
WK_API struct wk_tensor *wk_op_pool2d(struct wk_tensor *x, const struct wk_pool_options *options);

/* The same elements in another shape: at most one WK_REST. No copy. */
WK_API struct wk_tensor *wk_op_reshape(struct wk_tensor *x, struct wk_shape shape);
/* Dimension i of the result is dimension order.size[i] of x. */
WK_API struct wk_tensor *wk_op_transpose(struct wk_tensor *x, struct wk_shape order);
/* Elements first … first + count of dimension `dim`, which has a fixed size. */
WK_API struct wk_tensor *wk_op_slice(struct wk_tensor *x, int dim, int64_t first, int64_t count);
/* The first WK_LENGTH rows of a parameter: positions that are learned. Limits the length to its
 * rows. No copy. */
WK_API struct wk_tensor *wk_op_prefix(struct wk_tensor *param);
/* out[samples, length, width]: the rows of a parameter for the positions in each document. Starts
 * are as in wk_attention_options. Limits the length to the parameter's rows. */
WK_API struct wk_tensor *wk_op_positions(struct wk_tensor *param, struct wk_tensor *starts);
/* x[samples, length, width]: the last `positions` of each position side by side, the oldest first,
 * zeros before the sample. */
WK_API struct wk_tensor *wk_op_window(struct wk_tensor *x, int64_t positions);
/* Side by side along `dim`; n is at most 8. */
WK_API struct wk_tensor *wk_op_concat(struct wk_tensor *const *parts, int n, int dim);
/* out[samples, n, …] = x[samples, index[samples, n], …], zeros where the index is WK_IGNORED. The
 * rows of x are a fixed number. */
WK_API struct wk_tensor *wk_op_gather_rows(struct wk_tensor *x, struct wk_tensor *index);
/* Over dimension `dim`, which is removed and does not count samples. */
WK_API struct wk_tensor *wk_op_reduce(struct wk_tensor *x, enum wk_reduce kind, int dim);
/* An input in f32, or whole numbers of it in i32; the input itself if it has that type. Rounds to
 * nearest even; i64 outside i32 becomes the nearest that is. */
WK_API struct wk_tensor *wk_op_convert(struct wk_tensor *x, enum wk_dtype type);
/* The same value; no gradient passes. */
WK_API struct wk_tensor *wk_op_stop_gradient(struct wk_tensor *x);

/* The sum over the ranks of a mesh axis of x, in f32 and of fixed sizes. `axis` is "dp" (or NULL),
 * the ranks that share the global batch. The gradient is the sum of the ranks' gradients: what is
 * trained is the sum of the ranks' losses. Training passes are then called by all ranks, also by
 * one without samples; and evaluations that need it, too. */
WK_API struct wk_tensor *wk_op_all_reduce(struct wk_tensor *x, const char *axis);

/* out[WK_RANKS, …]: x[…] of each rank, in their order; in f32, below WK_TENSOR_DIMS_MAX dimensions.
 * The rest is as for wk_op_all_reduce. Where x counts samples or length, all ranks must have as
 * many in every pass: else it ends with WK_EMISMATCH. */
WK_API struct wk_tensor *wk_op_all_gather(struct wk_tensor *x, const char *axis);

/* ---- Losses of each element; wk_graph_loss sums them ---- */

/* losses[…] of logits[…, classes] against targets[…] (i32); 0 where the target is WK_IGNORED. */
struct wk_cross_entropy_options {
    double smoothing; /* share of the target spread over all classes (Szegedy et al. 2016); the
                       * model's (wk_model_label_smoothing) is added to it */
    /* [classes], or NULL: a loss is multiplied by the weight of its target, finite and not below 0.
     * Copied. The denominator of wk_graph_loss does not count them. */
    const float *class_weights;
};
WK_API struct wk_tensor *wk_op_cross_entropy(struct wk_tensor *logits, struct wk_tensor *targets,
                                             const struct wk_cross_entropy_options *options);
/* The same of logits = x[…, width] table[classes, width]^T, which are never all kept. */
WK_API struct wk_tensor *wk_op_head_cross_entropy(struct wk_tensor *x, struct wk_tensor *table,
                                                  struct wk_tensor *targets,
                                                  const struct wk_cross_entropy_options *options);
/* (x - target)^2, of equal shapes. */
WK_API struct wk_tensor *wk_op_squared_error(struct wk_tensor *x, struct wk_tensor *target);
/* Losses of logits x against targets in [0, 1], of equal shapes. */
WK_API struct wk_tensor *wk_op_binary_cross_entropy(struct wk_tensor *x, struct wk_tensor *target);
/* losses[…] = sum over classes of p (log p - log q), with p = softmax(teacher[…, classes]) and
 * q = softmax(student). The teacher gets no gradient. Sources: Kullback and Leibler 1951; Hinton et
 * al. 2015. */
WK_API struct wk_tensor *wk_op_kl_divergence(struct wk_tensor *student, struct wk_tensor *teacher);

#ifdef __cplusplus
}
#endif

#endif
