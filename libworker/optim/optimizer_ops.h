/* What one kind of optimizer fills in: its states, and its update of a segment. Each is a file of
 * optim/, with a constant table. numbers is called when a step is enqueued, update in its launch,
 * by update.c alone.
 */
#ifndef OPTIM_OPTIMIZER_OPS_H
#define OPTIM_OPTIMIZER_OPS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "libworker/kernel/kernel.h"

struct param;
struct wk_optimizer;

enum {
    OPTIMIZER_STATES_MAX = 3,
    OPTIMIZER_DIMS_MAX = 4,
    /* Elements widened, or updated before their copy is rounded by chance: all that is touched
     * stays in the second-level cache, so that costs no pass of its own. */
    OPTIMIZER_CHUNK = 16384,
};

/* Segments are in order and cover the range. */
struct optimizer_segment {
    size_t offset, count; /* in elements of the range */
    bool decay;           /* weight_decay is not 0 by rule */
    double weight_decay, rate_scale;
    bool elementwise; /* by group */

    /* Of optimizers on whole tensors only: */
    const struct param *param;
    float *own[OPTIMIZER_STATES_MAX]; /* NULL where this tensor has no such state */
};

/* The shape of one state of one tensor; dims 0: it has none. */
struct optimizer_shape {
    int dims;
    int64_t shape[OPTIMIZER_DIMS_MAX];
};

struct adafactor_numbers {
    int64_t rows, cols;
    bool is_matrix, relative;
    double rate, weight_decay, clip, epsilon2;
    float decay, epsilon1;
};

struct muon_numbers {
    bool is_matrix, nesterov;
    float momentum;
    int64_t size[2];
    size_t square; /* the smaller side */
    double rate, weight_decay;
    struct kernel_adamw others; /* of what is no matrix */
};

/* What one step does to a segment, as its launches need it. grad_scale of kernels is open. */
struct optimizer_numbers {
    const struct kernel_table *kernels;
    float *own[OPTIMIZER_STATES_MAX]; /* the segment's */
    float *scratch;                   /* of whole_tensors */
    union {
        struct kernel_adamw adamw;
        struct kernel_sgd sgd;
        struct kernel_lion lion;
        struct adafactor_numbers adafactor;
        struct muon_numbers muon;
    };
};

/* What of a segment's update changes from step to step, where its launches read that in the
 * device's memory (noted.h). */
struct noted_numbers {
    uint64_t noise; /* of the copy */
    union {
        struct {
            double rate;
            float decay;
        } adafactor;
        struct kernel_blend muon;  /* muon_step of a matrix */
        struct kernel_adamw adamw; /* Muon's others */
    };
};

struct optimizer_ops {
    const char *name;     /* "adamw" */
    const char *together; /* the launch of several segments; NULL for whole_tensors */
    int n_states;         /* of them in state_names */
    const char *state_names[OPTIMIZER_STATES_MAX]; /* as checkpoints call them: "exp_avg" */
    /* Fill in the union for a segment; `steps` already counts this step (first step: 1). Gaps stay
     * as they are. */
    void (*numbers)(const struct wk_optimizer *, const struct optimizer_segment *,
                    struct optimizer_numbers *ret);
    /* In a launch: one segment, or any part of it where tensors may be cut. The state is numbers'
     * own, or in `update` where tensors may be cut; there the copy may be asked for too. */
    void (*update)(const struct optimizer_numbers *, const struct kernel_update *update,
                   float grad_scale);

    bool whole_tensors; /* then these three are not NULL: */
    struct optimizer_shape (*state_shape)(const struct optimizer_segment *, int state);
    size_t (*scratch)(const struct optimizer_segment *); /* floats that one step needs */
    /* Move what changes from step to step, but the noise, from the numbers of a segment of `count`
     * elements: the rest is equal in all steps. */
    void (*note)(struct optimizer_numbers *numbers, size_t count, struct noted_numbers *ret);
};

#endif
