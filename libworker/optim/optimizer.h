/* An optimizer works on flat ranges: `count` parameters, their gradients and its own state, cut
 * into segments with equal options. A whole model is one range. A rank of ZeRO binds only its own
 * part, which element-wise optimizers update exactly as in the whole. Those that need whole
 * matrices declare it (ops->whole_tensors) and refuse ranges that cut a parameter.
 *
 * The arrays are memory of the place that the optimizer computes in (optimizer_move).
 *
 * Owned by the caller through worker/optim.h; the state belongs to the optimizer. One thread.
 */
#ifndef OPTIM_OPTIMIZER_H
#define OPTIM_OPTIMIZER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <worker/error.h>
#include <worker/optim.h>
#include <worker/types.h>

#include "common/base/kept.h"
#include "libworker/optim/host_state.h"
#include "libworker/optim/noted.h"
#include "libworker/optim/optimizer_ops.h"

struct queue;
struct verdict_values;

struct optimizer_group {
    char pattern[WK_PATTERN_MAX];
    struct wk_group numbers; /* pattern unused */
};

/* Where each step writes the new parameters in bf16 or f16. */
struct optimizer_copy {
    uint16_t *low; /* [count], NULL for none; borrowed */
    enum wk_dtype type;
    bool stochastic; /* bf16 only: round up or down by chance */
    uint64_t seed;   /* of that; mixed with the step's number */
};

/* Parameters in pinned memory of the host (parallel/masters.h), for element-wise optimizers where
 * the host does not read the device's memory. A step has them on the device piece by piece. */
struct optimizer_masters {
    bool host;
    bool by_chance; /* copies of all of them are rounded anew in each step, also where none moves */
    /* Elements [first, first + count) of the range are in the device's memory at `there`, as the
     * step leaves them, for what this enqueues on the optimizer's queue. */
    void (*passed)(void *arg, const float *there, size_t first, size_t count);
    void *arg;
};

/* State that is larger than memory: in files of a folder (tensor/mapped.h). A step loads and
 * releases it piece by piece; its bits equal those of state in memory. */
struct optimizer_offload {
    const char *dir; /* NULL or "": in memory; borrowed until the next binding */
    bool params;     /* the parameters passed to optimizer_step are mapped too */
    bool host;       /* where the host does not read the device's memory: in its own instead, for
                      * element-wise optimizers (host_state.h) */
    struct optimizer_masters masters;
};

struct wk_optimizer {
    const struct optimizer_ops *ops;
    const struct kernel_table *kernels;
    struct queue *queue, *own_queue; /* where it computes; its own is on the CPU */
    const struct wk_model *over;     /* the model of its parameters, if the program named it */
    struct error_ear ear;            /* of the context it is prepared in */
    const void *owned_by;            /* the context that frees it, or NULL; kept by step/ */
    struct unit *unit;               /* of its model where it is prepared, or NULL; kept by step/ */
    union {
        struct wk_adamw_options adamw;
        struct wk_sgd_options sgd;
        struct wk_lion_options lion;
        struct wk_adafactor_options adafactor;
        struct wk_muon_options muon;
    } options;
    double base_rate;    /* the option's */
    double weight_decay; /* the option's */
    double factor;       /* the schedule's, 1 without one */
    int64_t steps;       /* since the start of training; part of a checkpoint */
    struct optimizer_group groups[WK_GROUPS_MAX];
    int n_groups;

    size_t first, count; /* of the range in its arena; count 0 until optimizer_bind */
    struct optimizer_segment *segments;
    int n_segments;
    /* [count] each, named by ops->state_names, zero at first; NULL where states have shapes of
     * their own (whole_tensors): optimizer_state_view knows both. */
    float *state[OPTIMIZER_STATES_MAX];
    float *own;     /* [own_count], what segments' own point into */
    float *scratch; /* [scratch_count]: of whole_tensors, or [OPTIMIZER_CHUNK] of narrow grads */
    size_t own_count, scratch_count;
    struct optimizer_copy copy;
    struct optimizer_offload offload;
    bool mapped; /* the present state is in files */
    struct host_state host;
    size_t behind; /* elements that this step has given back */
    struct optimizer_noted noted;
};

/* Let it compute on this queue, which outlives the next binding, with state in memory of the
 * queue's device; NULL: on the CPU again. What was bound is not any more. */
void optimizer_move(struct wk_optimizer *optimizer, struct queue *queue);

/* Where the state is, for what reads or writes it besides steps: memory of this queue's device, or
 * of the host if NULL. Waits for copies of it, and of masters, that are under way. The device's
 * failure. */
int optimizer_state_home(struct wk_optimizer *optimizer, struct queue **ret_queue,
                         struct error *err);

/* The wait of optimizer_state_home alone: before the host touches masters, or frees them. */
int optimizer_settle(struct wk_optimizer *optimizer, struct error *err);

/* From the next optimizer_bind on. */
void optimizer_set_offload(struct wk_optimizer *optimizer, const struct optimizer_offload *offload);

/* Take the part [first, first + count) of the arena that `params[n_params]` describe as this
 * optimizer's range, allocate zeroed state and reset steps to 0. Binding again discards the state.
 * The table must outlive the binding.
 *
 * WK_EINVAL if the range is not inside the arena. WK_EUNSUPPORTED if it cuts a parameter and the
 * optimizer needs whole ones, or the device has no kernel for it. WK_ENOMEM. With offload also the
 * folder's errors, such as missing space, so that they occur before the training.
 */
int optimizer_bind(struct wk_optimizer *optimizer, const struct param *params, int n_params,
                   size_t first, size_t count, struct error *err);

/* Gradients of a range, and what the step multiplies them with. Clipping and unscaling therefore
 * cost nothing extra. */
struct optimizer_gradients {
    const float *grads;  /* NULL: narrow ones, of element-wise optimizers only */
    const uint16_t *low; /* bf16 or f16, widened piece by piece */
    enum wk_dtype type;
    float scale;                          /* unless `verdict` has it */
    const struct verdict_values *verdict; /* of the place; if it does not apply, nothing changes */
};

/* Enqueue one step over the bound range at the present rate: params[count] are updated, and the
 * copy is written in the same pass. All pointers are to the first element of the range. WK_ESTATE
 * if not bound, WK_ENOMEM. optimizer_take_back: its verdict was that it does not apply; it is not
 * counted. optimizer_step: with float gradients and a scale of the host's. */
int optimizer_enqueue(struct wk_optimizer *optimizer, float *params,
                      const struct optimizer_gradients *gradients, struct error *err);
void optimizer_take_back(struct wk_optimizer *optimizer);
int optimizer_step(struct wk_optimizer *optimizer, float *params, const float *grads,
                   float grad_scale, struct error *err);

/* Let every step write a low-precision copy (NULL: no longer). optimizer_write_copy writes it now,
 * after parameters were set by other means. The next optimizer_bind removes it. WK_EINVAL for a
 * type other than bf16 and f16, WK_ESTATE if not bound. */
int optimizer_set_copy(struct wk_optimizer *optimizer, const struct optimizer_copy *copy,
                       struct error *err);
void optimizer_write_copy(struct wk_optimizer *optimizer, const float *params);

/* For implementations: an optimizer without a range. WK_ENOMEM. */
int optimizer_new(const struct optimizer_ops *ops, double rate, double weight_decay,
                  struct wk_optimizer **ret_optimizer);

/* Whether its weight decay, or that of a group, touches any of these parameters. */
bool optimizer_decays(const struct wk_optimizer *optimizer, const struct param *params,
                      int n_params);

/* For implementations: WK_EINVAL, with the number, unless one can train with all of them. */
int optimizer_options_check(const void *options, struct error *err); /* NULL is refused */
int optimizer_rate_check(double rate, double weight_decay, struct error *err);
int optimizer_beta_check(const char *name, double beta, struct error *err);

/* The result of a constructor that failed: the sentence is stored for the thread. */
int optimizer_refuse(const struct error *err, struct wk_optimizer **ret_optimizer);

/* The name of state i as in checkpoints, or NULL past the last. */
const char *optimizer_state_name(const struct wk_optimizer *optimizer, int i);

/* State `state` of a parameter, for checkpoints: a tensor of `dims` dimensions of which elements
 * [first, first + count) are here, at data. */
struct optimizer_view {
    int dims; /* 0: there is no such state, count is 0 */
    int64_t shape[OPTIMIZER_DIMS_MAX];
    size_t first, count;
    float *data;
};
struct optimizer_view optimizer_state_view(const struct wk_optimizer *optimizer, int state,
                                           const struct param *param);

#endif
