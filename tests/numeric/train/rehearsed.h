/* A small training in one process on a device of the caller's, or on the CPU. */
#ifndef TRAIN_REHEARSED_H
#define TRAIN_REHEARSED_H

#include "libworker/device/replay.h"
#include "libworker/step/context.h"

enum { REHEARSED_STEPS = 4, REHEARSED_SETTINGS_MAX = 8, REHEARSED_WEIGHTS_MAX = 1 << 15 };

/* OWN: a graph with an operation of the program's own. */
enum rehearsed_model {
    REHEARSED_GPT,
    REHEARSED_LLAMA,
    REHEARSED_MLP,
    REHEARSED_OWN,
    REHEARSED_MODELS
};
enum rehearsed_optimizer {
    REHEARSED_SGD,
    REHEARSED_MOMENTUM,
    REHEARSED_ADAM,
    REHEARSED_ADAMW,
    REHEARSED_LION,
    REHEARSED_ADAFACTOR,
    REHEARSED_MUON,
    REHEARSED_OPTIMIZERS,
};

struct rehearsed {
    enum rehearsed_model model;
    enum rehearsed_optimizer optimizer;
    struct wk_setting settings[REHEARSED_SETTINGS_MAX];
    int n_settings;
    /* OWN's operation of x and a slope for each column; NULL: that of the documents. */
    struct wk_tensor *(*own)(struct wk_tensor *x, struct wk_tensor *slope);
    const char *loads; /* a folder of weights to begin with; NULL: the seed's */
    const char *saves; /* where to leave them at the end; NULL: nowhere */
    double dropout;
    int layers;            /* of GPT and LLAMA; 0: one */
    bool between;          /* after each step it is evaluated, and gathered for reading */
    const char *resting;   /* a group that the optimizer leaves as it is; NULL: none */
    bool custom;           /* a model with passes of the program's own instead */
    bool finds;            /* calls wk_find_batch */
    int64_t batch;         /* samples; 0: a few */
    int64_t *ret_found;    /* what wk_find_batch found; NULL: it must be the whole batch */
    bool clips;            /* calls wk_clip_grad_norm */
    bool schedules;        /* each step has another rate */
    bool asks;             /* for each loss and norm: waits in the middle of a step */
    struct device *device; /* NULL: the CPU */

    /* Called with the model after each backward pass, and after each wk_step. May be NULL. */
    void (*passed)(struct wk_model *model);
    void (*stepped)(void);
};

struct rehearsed_result {
    struct wk_step_numbers numbers[REHEARSED_STEPS];
    int64_t skipped;
    struct replay_counts graphs; /* of the device, if it has them */
    double held_out;
    float weights[REHEARSED_WEIGHTS_MAX];
    size_t count;
};

/* Train to the end, which must be a good one. */
void rehearsed_run(const struct rehearsed *rehearsed, struct rehearsed_result *ret);

/* Prepare it and train one step, which may fail: 0 or the error's code. */
int rehearsed_try(const struct rehearsed *rehearsed);

/* Prepare it and pass forward once, which must fail: the error's code. Its sentence has `part`. */
int rehearsed_refusal(const struct rehearsed *rehearsed, const char *part);

#endif
