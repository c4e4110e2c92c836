/* Types that several rooms of libworker share: element types, reductions, a batch. Plain data
 * without ownership; any thread. */
#ifndef WORKER_TYPES_H
#define WORKER_TYPES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <worker/export.h>

#ifdef __cplusplus
extern "C" {
#endif

/* name, bytes of one element, name for people */
#define WK_DTYPE_LIST(X)                                                                           \
    X(F32, 4, "f32")                                                                               \
    X(F64, 8, "f64")                                                                               \
    X(F16, 2, "f16")                                                                               \
    X(BF16, 2, "bf16")                                                                             \
    X(I32, 4, "i32")                                                                               \
    X(I64, 8, "i64")                                                                               \
    X(U8, 1, "u8")                                                                                 \
    X(BOOL, 1, "bool") /* a byte: 0, or true */

enum wk_dtype {
#define X(name, bytes, text) WK_##name,
    WK_DTYPE_LIST(X)
#undef X
};

/* MEAN divides the sum by the world; integers truncate toward zero. Integer sums wrap. MAX and MIN
 * are NaN if any rank's value is NaN. bool is moved, not reduced. */
enum wk_op { WK_SUM, WK_MEAN, WK_MAX, WK_MIN };

/* Bytes of one element, and "f32"; 0 and "?" for a number outside the enum. */
WK_API size_t wk_dtype_bytes(enum wk_dtype dtype);
WK_API const char *wk_dtype_name(enum wk_dtype dtype);

/* Frequencies of rotary positions, by the names of HuggingFace's rope types. Position p rotates
 * pair i of a head by p * frequency(i). DEFAULT is theta^(-2 i / size) (Su et al. 2021); the
 * others change that, so that a model sees more positions than it was first trained with. */
enum wk_rope_type {
    WK_ROPE_DEFAULT,
    WK_ROPE_LINEAR,  /* all divided by `factor` (Chen et al. 2023) */
    WK_ROPE_DYNAMIC, /* as DEFAULT up to the model's context; here no position is beyond it */
    WK_ROPE_LLAMA3,  /* slow ones divided by `factor`, fast ones kept (Llama 3.1) */
    WK_ROPE_YARN,    /* so too, and cosines and sines are scaled (YaRN, Peng et al. 2023) */
};

/* Zeroed: DEFAULT. LLAMA3 and YARN look at the rotations that a pair makes in `original_context`
 * positions. At `low` or fewer its frequency is divided, at `high` or more it is kept. Between them
 * the shares change evenly: for LLAMA3 with the rotations, for YARN with the pair's number. */
struct wk_rope_scaling {
    enum wk_rope_type type;
    bool exact;              /* YARN: `low` and `high` are not rounded to whole pairs */
    double factor;           /* of all but DEFAULT; at least 1 */
    double original_context; /* LLAMA3 and YARN; at least 1 */
    double low, high;        /* 0 < low < high; YARN's are usually 1 and 32 */
    double amplitude;        /* YARN: of cosines and sines; 0: 1 + ln(factor) / 10 */
};

/* An array of a batch, by the name of the graph's input (worker/graph.h): data[samples, …], row
 * after row in the input's type. */
struct wk_batch_tensor {
    const char *name;
    const void *data;
    enum wk_dtype type;
    int64_t elements; /* of one sample, as the graph's input must have; 0: not compared */
};

/* One rank's share of a global batch: the samples that wk_split (pad false) assigns to this rank,
 * in order. The loader owns the arrays; they are valid until its next batch. Arrays of a share of
 * no samples may be NULL. */
struct wk_batch {
    const int32_t *tokens;  /* [samples, length]; to a graph the input "tokens" */
    const int32_t *targets; /* [samples, length]; to a graph the input "targets" */
    int64_t samples;        /* of this rank; may be 0 */
    int64_t length;
    int64_t position;       /* global sample number of the global batch's first sample */
    int64_t global_samples; /* of all ranks together */
    /* For a program's own passes: a divisor of the summed loss. A loader sets it to the tokens of
     * the global batch, or for rows without targets (worker/rows.h) to its samples. With
     * accumulate_by_tokens it is the mean of those over the batches of the step. The losses of a
     * graph have denominators of their own (worker/graph.h). They use this one in a batch that
     * was not counted; 0 = the targets of the batch that are not WK_IGNORED. */
    double denominator;
    int64_t first; /* of this share, counted from the global batch's first sample */
    /* [n_tensors]: the rows of a source's fields, or the program's own, of these samples. */
    const struct wk_batch_tensor *tensors;
    int n_tensors;
};

#ifdef __cplusplus
}
#endif

#endif
