/* What an update enqueues: the names of its launches, and their arguments. Devices with kernels of
 * their own find them by name (device/device.h) and do what the functions in clip.c, update.c and
 * verdict.c do with them. All pointers are to memory of the queue's device, but `kernels` and the
 * functions, which are of the host. One thread.
 *
 *     name                 arguments
 *     the optimizer's      update_args    a step of a segment: "adamw"
 *     ops->together        together_args  a step of several segments
 *     OPTIM_COPY           rewrite_args   the low-precision copy of all parameters
 *     OPTIM_SQUARES        clip_args      *ret = the sum of the gradients' squares, in double
 *     OPTIM_LIMIT          clip_args      gradients are clamped, if at->finite is 1
 *     the others           verdict_args   verdict.h
 */
#ifndef OPTIM_LAUNCHES_H
#define OPTIM_LAUNCHES_H

#include "libworker/optim/clip.h"
#include "libworker/optim/optimizer_ops.h"
#include "libworker/optim/verdict.h"

#define OPTIM_COPY     "copy parameters"
#define OPTIM_SQUARES  "sum squares"
#define OPTIM_LIMIT    "limit gradients"
#define OPTIM_ADD_LOSS "add a loss"
#define OPTIM_OPEN     "open the sums"
#define OPTIM_MEASURE  "measure the sums"
#define OPTIM_CLIP     "clip the sums"
#define OPTIM_JUDGE    "judge the sums"

/* Those of every training. */
#define OPTIM_LAUNCHES                                                                             \
    {                                                                                              \
        OPTIM_COPY, OPTIM_SQUARES, OPTIM_LIMIT, OPTIM_ADD_LOSS, OPTIM_OPEN, OPTIM_MEASURE,         \
            OPTIM_CLIP, OPTIM_JUDGE                                                                \
    }

/* The low-precision copy of what a launch updates. */
struct copy_args {
    const struct kernel_table *kernels;
    uint16_t *low; /* NULL: none is wanted */
    enum wk_dtype type;
    bool stochastic;
    uint64_t noise; /* of wk_narrow_stochastic */
    size_t first;   /* place in the model of the first element */
};

struct update_args {
    struct optimizer_numbers numbers;
    void (*update)(const struct optimizer_numbers *, const struct kernel_update *, float);
    struct kernel_update whole; /* the segment, without a copy; grads NULL: narrow ones */
    const uint16_t *low_grads;
    enum wk_dtype low_type;
    float *wide; /* [OPTIMIZER_CHUNK], where those are widened */
    struct copy_args copy;
    bool whole_tensor; /* which is updated at once, and copied then */
    bool moves;        /* false: a frozen group is not touched, but for its copy */
    float scale;       /* of the gradients, unless `verdict` has it */
    const struct verdict_values *verdict; /* if it does not apply, nothing changes */
    const struct noted_numbers *noted;    /* the device's: `numbers` and the copy lack those */
    struct wk_optimizer *mapped;          /* whose state is given back as it is used, or NULL */
    size_t offset;
};

/* Segments of an element-wise optimizer in one launch, where the device has a kernel for it. */
enum { TOGETHER_MAX = 48 };

union element_numbers {
    struct kernel_adamw adamw;
    struct kernel_sgd sgd;
    struct kernel_lion lion;
};

struct together_part {
    size_t first, count; /* elements of the range */
    bool moves;          /* as update_args' */
    union element_numbers numbers;
};

struct together_args {
    struct update_args range; /* its numbers and `moves` count for nothing */
    int n;
    struct together_part parts[TOGETHER_MAX];
};
_Static_assert(sizeof(struct together_args) <= 4096, "a launch copies its arguments");

struct rewrite_args {
    struct copy_args copy;
    const float *params;
    size_t count;
};

struct clip_args {
    struct clip_grads grads;
    double *ret;
    const struct verdict_values *at;
    double most; /* of a gradient times at->scale */
};

struct verdict_args {
    struct verdict_values *at;
    double number;
    bool first;
    enum verdict_sums sums;
};

#endif
