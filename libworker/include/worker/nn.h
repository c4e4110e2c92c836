/* Models. A model is a table of named parameters and the code of its forward and backward passes.
 * It has no parameter memory of its own: wk_prepare decides where that is.
 *
 * One thread at a time per model; two models are independent. Functions return 0 or a negative enum
 * wk_error.
 */
#ifndef WORKER_NN_H
#define WORKER_NN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <worker/export.h>
#include <worker/types.h>

#ifdef __cplusplus
extern "C" {
#endif

struct wk_model;

/* A target that counts neither in the loss nor in its denominator, as torch's ignore_index. */
enum { WK_IGNORED = -100 };

/* GPT-2's shape: pre-norm blocks, learned positions, tanh GELU, head tied to the embedding, layer
 * norm epsilon 1e-5. Names and layout are those of GPT-2 checkpoints: linear weights are [in, out].
 */
struct wk_gpt_config {
    int layers;  /* 1 … 1024 */
    int heads;   /* divides width */
    int width;   /* 1 … 65536 */
    int context; /* longest sequence, 1 … 2^20 */
    int vocab;   /* 1 … 2^24 */
};

/* A model without memory. The caller frees it with wk_model_free, after the context it was prepared
 * in. WK_EINVAL for a shape outside the limits above (wk_last_error(NULL) names it), WK_ENOMEM. */
WK_API int wk_gpt_new(const struct wk_gpt_config *config, struct wk_model **ret_model);

/* Llama's shape: RMS norms, rotary positions, SwiGLU. heads / kv_heads heads share one set of keys
 * and values. Names and layout are those of HuggingFace's checkpoints: linear weights are [out,
 * in]. What follows `tied` is zeroed for Llama 2; Mistral has a window, Qwen2 biases and Qwen3
 * norms of queries and keys. */
struct wk_llama_config {
    int layers;          /* 1 … 1024 */
    int heads;           /* divides width, if head_size is 0 */
    int kv_heads;        /* divides heads */
    int width;           /* 1 … 65536 */
    int inner;           /* of the gated MLP; 1 … 2^20 */
    int context;         /* longest sequence, 1 … 2^20 */
    int vocab;           /* 1 … 2^24 */
    double rope_theta;   /* 10000, later ones 500000 */
    double norm_epsilon; /* 1e-5 */
    bool tied;           /* the head is the embedding */

    int head_size;    /* even, up to 256; 0: width / heads */
    bool qkv_bias;    /* queries, keys and values have biases */
    bool out_bias;    /* the product that follows attention has one */
    bool mlp_bias;    /* the three products of the MLP have one */
    bool qk_norm;     /* an RMS norm of each query and key, before it is rotated */
    int window;       /* positions that each one sees, itself included; 0: all before it */
    int window_layer; /* the first layer with that window, 0 … layers; those before it see all */
    struct wk_rope_scaling rope_scaling;
};
WK_API int wk_llama_new(const struct wk_llama_config *config, struct wk_model **ret_model);

/* A feed-forward language model (Bengio et al. 2003): the embeddings of the last `window` tokens
 * side by side, hidden layers with GELU, logits of the next token. Before the first token there are
 * zeros.
 */
struct wk_mlp_config {
    int layers;    /* hidden ones, 1 … 1024 */
    int window;    /* tokens seen, 1 … 1024 */
    int embedding; /* width of a token, 1 … 65536 */
    int width;     /* of the hidden layers, 1 … 65536 */
    int context;   /* longest sequence, 1 … 2^20 */
    int vocab;     /* 1 … 2^24 */
};
WK_API int wk_mlp_new(const struct wk_mlp_config *config, struct wk_model **ret_model);

WK_API void wk_model_free(struct wk_model *model); /* NULL is fine */

/* Elements of all parameters together (that is, the size of its arenas), and parameters. */
WK_API size_t wk_model_count(const struct wk_model *model);
WK_API int wk_model_parameters(const struct wk_model *model);

/* GPT-2's initial values: normal(0, 0.02), residual projections divided by sqrt(2 * layers), norms
 * 1, biases 0. Each value depends only on the seed, the parameter's name and its index, so it is
 * the same on every rank of every world. Call it before wk_prepare (WK_ESTATE after it); the values
 * are computed when there is memory. Source: Radford et al. 2019, section 2.3. */
WK_API int wk_model_init(struct wk_model *model, uint64_t seed);

/* Spread a share of every target over the whole vocabulary: in [0, 1), 0 at first. WK_EINVAL. */
WK_API int wk_model_label_smoothing(struct wk_model *model, double share);

/* Drop this share of the embeddings and of what each half of a layer adds to the stream (Srivastava
 * et al. 2014), in training only. The share is in [0, 1), initially 0. wk_evaluate and wk_generate
 * never drop; wk_forward drops in an evaluation too. The choice depends on the seed, the global
 * batch's position and the sample's tokens, so it does not depend on how samples are dealt to
 * ranks. WK_EINVAL; WK_EUNSUPPORTED for a model without dropout. */
WK_API int wk_model_dropout(struct wk_model *model, double share, uint64_t seed);

/* Freeze the parameters with names that match a pattern (fnmatch), such as "h.?.*": they are not
 * trained (worker/graph.h, wk_graph_freeze). With `on` false they are trained again. Frozen ones
 * are last in the order of parameters, which may change by this. Call it before wk_prepare.
 *
 * WK_EINVAL, and nothing changes, if no name matches, or a loss is left with no parameter to train.
 * WK_ESTATE after wk_prepare, WK_EUNSUPPORTED for a program's own passes, WK_ENOMEM. */
WK_API int wk_model_freeze(struct wk_model *model, const char *pattern, bool on);

/* What the backward pass computes again, instead of keeping what it reads of the forward pass. The
 * bits are the same in all of them, dropout included; only time and memory differ. The setting
 * `recompute` has these, too. */
enum wk_recompute {
    WK_RECOMPUTE_NONE,       /* nothing: the most memory, at first */
    WK_RECOMPUTE_BLOCKS,     /* blocks: of each only what others read is kept; a third more time */
    WK_RECOMPUTE_OPERATIONS, /* cheap operations, if their inputs are kept: norms, activations,
                              * dropout, other elementwise ones; a few percent more time */
    WK_RECOMPUTE_WITHIN,     /* of both as little as keeps a pass within a number of bytes */
};

/* Choose one for a model that is a graph, as ours are. Passes of a program's own ignore it. `bytes`
 * is of WK_RECOMPUTE_WITHIN, at least 1, and counts as `muster model estimate` does: values and
 * their gradients, not parameters. wk_prepare makes rank 0's number that of all ranks. A pass that
 * cannot be within it fails with WK_ENOMEM and a sentence with the least that it needs. WK_EINVAL.
 *
 * If nothing is chosen here, the setting counts while the model is prepared. */
WK_API int wk_model_recompute_by(struct wk_model *model, enum wk_recompute policy, int64_t bytes);

/* The same with WK_RECOMPUTE_BLOCKS or WK_RECOMPUTE_NONE. */
WK_API void wk_model_recompute(struct wk_model *model, bool on);

/* What wk_evaluate (worker/worker.h) writes for a batch besides its loss. Each field is the
 * program's memory, or NULL to skip it. A position is a token of a sample; the values there are
 * about the token after it. */
struct wk_outputs {
    float *losses;      /* [samples, length], of each position: 0 where its target is WK_IGNORED */
    int32_t *likeliest; /* [samples, length]: the token with the largest logit */
    float *logits;      /* [samples, length, vocab]: much, so ask for it only if need be */
};

struct wk_generate_options {
    const int32_t
        *prompt; /* [prompt_length] token numbers; NULL with length 0 starts with token 0 */
    int64_t prompt_length;
    double temperature;  /* 0 chooses the likeliest token each time */
    int top_k;           /* choose among the k likeliest; 0 among all */
    uint64_t seed;       /* same seed, same text */
    double top_p;        /* of those the fewest with this share of the probability; 0: all */
    const int32_t *stop; /* [n_stop] tokens that end a text */
    int n_stop;
};

/* Continue the prompt by `count` tokens into ret_tokens[count]. A stop token is the last of a text:
 * what is left of ret_tokens repeats it. The model sees the last `context` tokens. Call it between
 * steps, because it disturbs a forward pass that waits for its backward pass.
 *
 * A model keeps the keys and values of what it saw (in the type of its products), so that a token
 * costs one position. Beyond `context` tokens every position moves with each token, and a token
 * costs a pass over `context` positions. So it does, over all positions so far, in a graph with an
 * operation that mixes positions and has no cache, such as wk_op_window.
 *
 * Under fsdp each rank has a part of the model. All ranks then call it with the same arguments and
 * get the same text. Under other strategies any rank may call it alone.
 *
 * WK_ESTATE before wk_prepare, WK_EINVAL for a token out of range (not an error of the context),
 * WK_ENOMEM, WK_EPEER and similar if a rank did not take part.
 */
WK_API int wk_generate(struct wk_model *model, const struct wk_generate_options *options,
                       int64_t count, int32_t *ret_tokens);

/* One of several texts. */
struct wk_text {
    const int32_t *prompt; /* [prompt_length]; NULL with length 0 starts with token 0 */
    int64_t prompt_length;
    uint64_t seed;
    int32_t *tokens; /* [count], the caller's: what follows the prompt */
    int64_t length;  /* result: tokens of it, a stop token included; the rest repeats that */
};

/* Continue n >= 1 texts at once. Prompts may differ in length. Each text is what wk_generate makes
 * of its prompt and seed, whatever the others are. Only between two tokens that are almost equally
 * likely can rounding decide otherwise, as the order of sums depends on the number of texts. The
 * prompt and the seed in
 * `options` are not used. All texts are computed at the same position, from the end of the shortest
 * prompt on, so prompts of like lengths are best put together.
 * Errors as wk_generate; WK_EINVAL also for more than (2^31 - 1) / context texts. */
WK_API int wk_generate_batch(struct wk_model *model, const struct wk_generate_options *options,
                             struct wk_text *texts, int64_t n, int64_t count);

#ifdef __cplusplus
}
#endif

#endif
