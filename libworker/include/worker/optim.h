/* Optimizers and learning-rate schedules, made by a program before wk_prepare.
 *
 * Handles belong to the caller, which frees them after the context they were prepared in, the
 * scheduler before its optimizer. One thread at a time per handle. Constructors return WK_EINVAL
 * for a value out of range, which wk_last_error(NULL) names, or WK_ENOMEM.
 *
 * Weight decay applies only to tensors of two or more dimensions, in our models and in a program's
 * own. A group, or a buffer's `decay` or `no_decay` (parallel.h), changes that. If weight decay
 * applies to no parameter of a model, wk_prepare sends a notice.
 */
#ifndef WORKER_OPTIM_H
#define WORKER_OPTIM_H

#include <stdbool.h>
#include <stdint.h>

#include <worker/export.h>

#ifdef __cplusplus
extern "C" {
#endif

struct wk_context;
struct wk_model;
struct wk_optimizer;
struct wk_scheduler;

/* Adam adds decay to the gradient (Kingma and Ba 2015, algorithm 1). AdamW subtracts it from the
 * parameter (Loshchilov and Hutter 2019, algorithm 2). */
struct wk_adamw_options {
    double rate;         /* 3e-4 is usual; > 0 */
    double beta1, beta2; /* 0.9, 0.95 or 0.999; in [0, 1) */
    double epsilon;      /* 1e-8 */
    double weight_decay; /* 0.1 */
};
WK_API int wk_adam_new(const struct wk_adamw_options *options, struct wk_optimizer **ret_optimizer);
WK_API int wk_adamw_new(const struct wk_adamw_options *options,
                        struct wk_optimizer **ret_optimizer);

/* As torch.optim.SGD with dampening 0: decay is added to the gradient. */
struct wk_sgd_options {
    double rate;
    double momentum; /* in [0, 1) */
    bool nesterov;   /* needs momentum */
    double weight_decay;
};
WK_API int wk_sgd_new(const struct wk_sgd_options *options, struct wk_optimizer **ret_optimizer);

/* Chen et al. 2023, "Symbolic Discovery of Optimization Algorithms", algorithm 2. */
struct wk_lion_options {
    double rate;         /* a third to a tenth of AdamW's */
    double beta1, beta2; /* 0.9, 0.99 */
    double weight_decay; /* three to ten times AdamW's */
};
WK_API int wk_lion_new(const struct wk_lion_options *options, struct wk_optimizer **ret_optimizer);

/* Shazeer and Stern 2018, algorithms 4 to 6, without first moment. A matrix costs rows + columns of
 * state. It needs whole parameters, so it does not run under ZeRO or FSDP, which cut them. */
struct wk_adafactor_options {
    double rate;         /* relative to the parameter's size if `relative`; 1e-2, else 1e-3 */
    double decay_power;  /* 0.8: the moment's decay at step t is 1 - t^-decay_power */
    double epsilon1;     /* 1e-30, added to squared gradients */
    double epsilon2;     /* 1e-3, the least size of a parameter */
    double clip;         /* 1: largest root mean square of an update; 0: none */
    bool relative;       /* multiply the rate by max(epsilon2, root mean square of the parameter) */
    double weight_decay; /* decoupled */
};
WK_API int wk_adafactor_new(const struct wk_adafactor_options *options,
                            struct wk_optimizer **ret_optimizer);

/* Jordan et al. 2024. Five Newton-Schulz steps make the momentum of each matrix nearly orthogonal.
 * A factor of 0.2 sqrt(larger side) lets it use AdamW's rates (Liu et al. 2025, section 2.2).
 * Vectors, embeddings, heads and groups marked `elementwise` use `others` at the same rate. It
 * needs whole parameters. */
struct wk_muon_options {
    double rate;                    /* 3e-4 … 2e-3 */
    double momentum;                /* 0.95 */
    bool nesterov;                  /* usual */
    double weight_decay;            /* 0.1, decoupled */
    struct wk_adamw_options others; /* its rate and weight_decay are not used */
};
WK_API int wk_muon_new(const struct wk_muon_options *options, struct wk_optimizer **ret_optimizer);

/* The optimizer that the setting `optimizer` names. Options not listed here have the usual values:
 * momentum 0.9 for SGD, fixed rates for Adafactor. WK_EINVAL, WK_ENOMEM. */
struct wk_optimizer_options {
    double rate, weight_decay;
    double beta2; /* of Adam, AdamW and Muon's others; 0 = 0.999 */
};
WK_API int wk_optimizer_new(struct wk_context *ctx, const struct wk_optimizer_options *options,
                            struct wk_optimizer **ret_optimizer);

WK_API void wk_optimizer_free(struct wk_optimizer *optimizer);

/* Set the model that the optimizer updates. wk_prepare requires it if there are several
 * models. WK_EINVAL for NULL, WK_ESTATE after wk_prepare. */
WK_API int wk_optimizer_over(struct wk_optimizer *optimizer, const struct wk_model *model);

/* The rate the next step uses: the option's rate times the schedule's factor. */
WK_API double wk_optimizer_rate(const struct wk_optimizer *optimizer);

/* Parameters with their own options, chosen by name ("*.bias", "h.0.*", as fnmatch). The first
 * matching group applies. Call it before wk_prepare: WK_ESTATE after it, WK_ENOMEM beyond
 * WK_GROUPS_MAX. */
enum { WK_GROUPS_MAX = 32, WK_PATTERN_MAX = 96 };
struct wk_group {
    const char *pattern; /* copied; below WK_PATTERN_MAX bytes */
    double rate_scale;   /* of the optimizer's rate; 0 freezes the parameters */
    double weight_decay; /* instead of the optimizer's, vectors too; negative: the usual rule */
    bool elementwise;    /* Muon: use `others` */
};
WK_API int wk_optimizer_group(struct wk_optimizer *optimizer, const struct wk_group *group);

/* Factors of the base rate by step (from 0). With w warm-up steps that of step s is (s + 1) / w
 * while s < w. Then
 *   CONSTANT  1
 *   LINEAR    a line from 1 at w to min_ratio at total_steps, where it stays
 *   COSINE    half a cosine likewise (Loshchilov and Hutter 2017)
 *   WSD       1 until total_steps - decay_steps, then a line to min_ratio at total_steps (Hu et al.
 *             2024, "MiniCPM"), or 1 - sqrt with `root` (Hägele et al. 2024)
 *   ONE_CYCLE half a cosine from initial_ratio at 0 up to 1 at w - 1 and another down to min_ratio
 *             at total_steps - 1, as torch.optim.lr_scheduler.OneCycleLR (Smith and Topin 2019)
 *   LAMBDA    lambda(arg, s), warm-up multiplied in
 *   PRODUCT   the parts' factors multiplied
 *   SEQUENCE  part i until step ends[i], each counting from its own start; the last never ends
 */
enum wk_schedule_kind {
    WK_SCHEDULE_CONSTANT,
    WK_SCHEDULE_LINEAR,
    WK_SCHEDULE_COSINE,
    WK_SCHEDULE_WSD,
    WK_SCHEDULE_ONE_CYCLE,
    WK_SCHEDULE_LAMBDA,
    WK_SCHEDULE_PRODUCT,
    WK_SCHEDULE_SEQUENCE
};

enum { WK_SCHEDULE_PARTS_MAX = 8 };

struct wk_schedule_options {
    enum wk_schedule_kind kind;
    int64_t warmup_steps;
    int64_t total_steps;  /* > warmup_steps where it is used */
    double min_ratio;     /* in [0, 1] */
    int64_t decay_steps;  /* WSD: in [1, total_steps - warmup_steps] */
    bool root;            /* WSD */
    double initial_ratio; /* ONE_CYCLE: in [0, 1]; torch's 1 / div_factor */
    double (*lambda)(void *arg, int64_t step);
    void *arg;
    const struct wk_schedule_options *parts; /* [n_parts], copied; no part has parts */
    int n_parts;                             /* 1 … WK_SCHEDULE_PARTS_MAX */
    int64_t ends[WK_SCHEDULE_PARTS_MAX];     /* SEQUENCE: rising; the last is not used */
};

/* Bound to `optimizer`; its rate becomes that of step 0. WK_EINVAL, WK_ENOMEM. */
WK_API int wk_scheduler_new(struct wk_optimizer *optimizer,
                            const struct wk_schedule_options *options,
                            struct wk_scheduler **ret_scheduler);
WK_API void wk_scheduler_free(struct wk_scheduler *scheduler);

#ifdef __cplusplus
}
#endif

#endif
