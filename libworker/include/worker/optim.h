/* Optimizers and learning-rate schedules, as a program names them before wk_prepare.
 *
 * Handles belong to the caller and are freed by it, the scheduler before its optimizer, both after
 * the context they were prepared in. One thread at a time per handle.
 */
#ifndef WORKER_OPTIM_H
#define WORKER_OPTIM_H

#include <stdbool.h>
#include <stdint.h>

#include <worker/export.h>

struct wk_optimizer;
struct wk_scheduler;

/* Decay is decoupled and applies to tensors of two or more dimensions only.
 * Source: Loshchilov and Hutter 2019, algorithm 2.
 */
struct wk_adamw_options {
    double rate;         /* 3e-4 is usual; > 0 */
    double beta1, beta2; /* 0.9, 0.95 or 0.999; in [0, 1) */
    double epsilon;      /* 1e-8 */
    double weight_decay; /* 0.1 */
};

/* As torch.optim.SGD with dampening 0: decay is added to the gradient. */
struct wk_sgd_options {
    double rate;
    double momentum; /* in [0, 1) */
    bool nesterov;   /* needs momentum */
    double weight_decay;
};

/* WK_EINVAL for a value out of range, WK_ENOMEM. */
WK_API int wk_adamw_new(const struct wk_adamw_options *options,
                        struct wk_optimizer **ret_optimizer);
WK_API int wk_sgd_new(const struct wk_sgd_options *options, struct wk_optimizer **ret_optimizer);
WK_API void wk_optimizer_free(struct wk_optimizer *optimizer);

/* The rate the next step uses: the option's rate times the schedule's factor. */
WK_API double wk_optimizer_rate(const struct wk_optimizer *optimizer);

enum wk_schedule_kind { WK_SCHEDULE_CONSTANT, WK_SCHEDULE_LINEAR, WK_SCHEDULE_COSINE };

/* With w warm-up steps the factor of step s (from 0) is (s + 1) / w while s < w; then it falls from
 * 1 to min_ratio at total_steps, along a line or half a cosine, and stays there.
 */
struct wk_schedule_options {
    enum wk_schedule_kind kind;
    int64_t warmup_steps;
    int64_t total_steps; /* > warmup_steps, but for WK_SCHEDULE_CONSTANT */
    double min_ratio;    /* in [0, 1] */
};

/* Bound to `optimizer`, whose rate becomes that of step 0. */
WK_API int wk_scheduler_new(struct wk_optimizer *optimizer,
                            const struct wk_schedule_options *options,
                            struct wk_scheduler **ret_scheduler);
WK_API void wk_scheduler_free(struct wk_scheduler *scheduler);

#endif
