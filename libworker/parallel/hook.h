/* The gradient hooks (worker/parallel.h) that settings name. Each is made for one model's arenas,
 * belongs to the strategy, and gets every communicator before it is used there. One thread.
 *
 *      sum         float, in place: the plain one
 *      f16, bf16   half the bytes: each rank rounds its gradients, sums are in float and
 *                  rounded once more
 *      powersgd    low-rank with error feedback: Vogels, Karimireddy, Jaggi 2019, "PowerSGD"
 *
 * A hook's memory from step to step (PowerSGD's errors and factors) belongs to one generation. With
 * a new communicator it starts from the beginning, so that joining members need nothing from it.
 */
#ifndef PARALLEL_HOOK_H
#define PARALLEL_HOOK_H

#include <stdbool.h>
#include <stdint.h>

#include <worker/comm.h>
#include <worker/parallel.h>
#include <worker/types.h>

#include "common/base/error.h"

struct kernel_table;
struct param;

/* Whether every sum of a window is finite, if it was checked; MEASURED: the device knows. */
enum sums { SUMS_UNJUDGED, SUMS_FINITE, SUMS_NONFINITE, SUMS_MEASURED };

struct grad_hook {
    struct wk_gradient_hook face;
    int (*meet)(void *arg, struct wk_comm *comm); /* NULL: nothing to do */
    void (*free)(void *arg);                      /* may be NULL */
    /* After the finish of all: the result of checks while summing. NULL: not checked. */
    enum sums (*sums)(const void *arg);
    /* Before the first start of a pass: what its gradients are multiplied with (the loss scale).
     * NULL: it remembers nothing that would have to change with it. */
    void (*scaled)(void *arg, double scale);

    bool plain; /* its sum over a single rank changes nothing */
    /* [count] of the device: gradients are narrowed to `type` there before they are copied to the
     * host. NULL: they are not. */
    uint16_t *low;
    enum wk_dtype type;
};

/* The data of hooks: gradients grads[count] of params[n_params], in this order. */
struct hook_model {
    const struct kernel_table *kernels;
    const struct param *params;
    int n_params;
    float *grads;
    size_t count;
};

/* `watch`: with several ranks find out whether the sums are finite, on the blocks that are summed
 * anyway; a single rank sums nothing. WK_ENOMEM. */
int hook_sum_new(const struct hook_model *model, bool watch, struct grad_hook *ret,
                 struct error *err);

/* `type` WK_F16 or WK_BF16. WK_ENOMEM. hook_narrow_new: for gradients that are narrowed before they
 * are on the host, and widened after it: their data has elements of `type`. */
int hook_low_new(const struct hook_model *model, enum wk_dtype type, struct grad_hook *ret,
                 struct error *err);
int hook_narrow_new(enum wk_dtype type, struct grad_hook *ret, struct error *err);

struct powersgd_options {
    int rank;        /* columns of the factors */
    int64_t warm_up; /* passes of a generation that sum everything first */
    uint64_t seed;
};

/* WK_ENOMEM. */
int hook_powersgd_new(const struct hook_model *model, const struct powersgd_options *options,
                      struct grad_hook *ret, struct error *err);

/* The factor that parameter `name` starts with: q[count] from a standard normal. */
void powersgd_first(float *q, size_t count, uint64_t seed, const char *name);

/* Strategy's own use: whether a parameter of rows x cols is worth factors of `rank` columns, and
 * its shape as a matrix: the first dimension by all others. */
struct powersgd_shape {
    size_t rows, cols, rank;
    bool compressed;
};
struct powersgd_shape powersgd_shape(const struct param *param, int rank);

#endif
