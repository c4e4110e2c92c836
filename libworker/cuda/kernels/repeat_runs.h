/* Runs as kernels walk them (repeat.h): where an element is by its number. For kernels and their
 * launchers only. */
#ifndef CUDA_KERNELS_REPEAT_RUNS_H
#define CUDA_KERNELS_REPEAT_RUNS_H

#include "libworker/cuda/kernels/divider.h"
#include "libworker/cuda/kernels/repeat.h"

/* Some runs, the innermost last, each with a stride in something. */
struct runs {
    int n;
    int64_t stride[REPEAT_RUNS_MAX];
    struct divider size[REPEAT_RUNS_MAX];
    int64_t count; /* product of the sizes */
};

static inline void runs_add(struct runs *r, int64_t size, int64_t stride)
{
    r->size[r->n] = divider_of(size);
    r->stride[r->n++] = stride;
    r->count *= size;
}

/* b's strides for the elements of a. */
static inline struct runs runs_of_b(const struct gpu_repeat *repeat)
{
    struct runs r = {};
    int64_t stride[REPEAT_RUNS_MAX], next = 1;
    for (int i = repeat->n - 1; i >= 0; i--) {
        stride[i] = repeat->moves[i] ? next : 0;
        next *= repeat->moves[i] ? repeat->size[i] : 1;
    }
    r.count = 1;
    for (int i = 0; i < repeat->n; i++)
        runs_add(&r, repeat->size[i], stride[i]);
    return r;
}

/* The runs along which b moves, or is repeated, with their strides in a. */
static inline struct runs runs_in_a(const struct gpu_repeat *repeat, bool moves)
{
    struct runs r = {};
    int64_t stride[REPEAT_RUNS_MAX], next = 1;
    for (int i = repeat->n - 1; i >= 0; i--) {
        stride[i] = next;
        next *= repeat->size[i];
    }
    r.count = 1;
    for (int i = 0; i < repeat->n; i++) {
        if (repeat->moves[i] == moves)
            runs_add(&r, repeat->size[i], stride[i]);
    }
    return r;
}

/* Where element i is. `ret_within`: its place in the innermost run. */
static __device__ __forceinline__ int64_t runs_at(const struct runs &r, int64_t i,
                                                  int64_t *ret_within)
{
    int64_t at = 0;
    *ret_within = 0;
    GPU_UNROLL
    for (int k = REPEAT_RUNS_MAX - 1; k >= 0; k--) {
        if (k >= r.n)
            continue;
        int64_t rest = divide(r.size[k], i), place = i - rest * r.size[k].by;
        if (k == r.n - 1)
            *ret_within = place;
        at += place * r.stride[k];
        i = rest;
    }
    return at;
}

#endif
