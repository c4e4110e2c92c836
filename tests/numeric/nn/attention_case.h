/* What the tests of attention share: a case with its arrays in any type and layout, and the same
 * attention in double with every probability kept, together with what its sums consist of.
 */
#ifndef NN_ATTENTION_CASE_H
#define NN_ATTENTION_CASE_H

#include "libworker/kernel/attention.h"
#include "libworker/kernel/kernel.h"

struct attention_shape {
    const char *name;
    int64_t samples, length, keys, heads, kv_heads, size;
    bool full; /* not causal */
    int64_t window;
    int64_t document; /* length of most documents; 0: starts NULL */
    float keep;       /* 0: as 1 */
    bool joined;      /* q, k, v side by side in one array, as a joined product leaves them */
};

enum attention_array {
    ARRAY_Q,
    ARRAY_K,
    ARRAY_V,
    ARRAY_OUT,
    ARRAY_DOUT,
    ARRAY_DQ,
    ARRAY_DK,
    ARRAY_DV
};
enum { ARRAYS = ARRAY_DV + 1 };

struct attention_case {
    struct kernel_attention a;
    struct attention_data data;
    int32_t *starts;
    void *memory[ARRAYS]; /* what to free; NULL where the array is in another's */
    float *lse;
};

/* Arrays of random numbers, gradients and outputs full of a mark; exactly as long as their last
 * element needs. gaps: between rows and samples, unless joined. */
struct attention_case *attention_case_new(const struct attention_shape *shape, enum wk_dtype type,
                                          enum wk_dtype grad_type);
void attention_case_free(struct attention_case *c);

/* Both passes with scratch memory of exactly its size, full of NaN. */
void attention_case_run(struct attention_case *c, const struct kernel_table *kernels);
void attention_case_forward(struct attention_case *c, const struct kernel_table *kernels);
void attention_case_backward(struct attention_case *c, const struct kernel_table *kernels);

/* A copy in double, [samples, positions, heads of that array, size]; freed with free. */
double *attention_values(const struct attention_case *c, enum attention_array array);
size_t attention_count(const struct attention_case *c, enum attention_array array);
void attention_set(struct attention_case *c, enum attention_array array, const double *values);

/* Elements that belong to no row and lost their mark. */
int64_t attention_strays(const struct attention_case *c, enum attention_array array);

/* The attention by its definition from values in double, and for each result the sum of its terms'
 * absolute values, to which an error by rounding is relative. */
struct attention_exact {
    double *q, *k, *v, *dout; /* copies of the case's values, to change */
    double *out, *lse;        /* as in the case */
    double *out_terms;        /* sum of p |v| */
    double *dq_terms, *dk_terms, *dv_terms;
    double score_terms; /* the largest sum of |scale q k| of any score */
};
struct attention_exact attention_exact_new(const struct attention_case *c);
void attention_exact_free(struct attention_exact *exact);
void attention_exact_forward(struct attention_exact *exact, const struct attention_case *c);
/* After forward. */
void attention_exact_terms(struct attention_exact *exact, const struct attention_case *c);

/* What `sees` and dropout decide for a pair: the factor of its probability, or -1 where unseen. */
double attention_share(const struct attention_case *c, const int64_t at[4]);

#endif
