/* One small training run, as a worker thread or a whole program makes it. */
#ifndef TRAIN_TOY_H
#define TRAIN_TOY_H

#include "libworker/step/context.h"
#include "tests/numeric/train/borrowed.h"

enum { TOY_STEPS_MAX = 256, TOY_SETTINGS_MAX = 16 };

struct toy {
    struct session *session;               /* NULL: place from `environment` */
    const struct environment *environment; /* NULL: an empty one */
    struct wk_setting settings[TOY_SETTINGS_MAX];
    int n_settings;
    int64_t batch; /* 0 = 6 */
    int64_t epochs;
    int64_t text_bytes; /* 0 = 20000 */
    bool other_text;    /* another one of that length */
    bool muon;          /* instead of AdamW: states with shapes of their own */
    bool adafactor;     /* likewise */
    bool custom;        /* a linear model with the program's own passes instead of the GPT */
    bool on_device;     /* its passes are launches on the model's device (own_device.h) */
    bool llama;         /* grouped queries with norms and biases, instead of the GPT */
    bool borrowed;      /* the GPT as a custom model; how its passes go about it: */
    enum borrowed_how how;
    bool by_block;                      /* its passes enter blocks */
    unsigned narrow;                    /* of a custom model's buffers */
    struct wk_graph *(*graph)(void);    /* builds the model instead of the GPT */
    const struct wk_row_options *rows;  /* its samples instead of the text */
    double dropout;                     /* of the model */
    int64_t within_bytes;               /* of its recomputation; 0: as set */
    const struct kernel_table *kernels; /* the best of its CPU; NULL: as it is */
    struct device *device;              /* computes there; NULL: on the CPU */

    /* Called after each step taken; true ends the run in the middle of the next one: before its
     * backward pass, or with its reductions under way. */
    bool (*stepped)(void *arg, struct wk_context *ctx);
    void *arg;
    bool leave_reducing;
    bool leave_at_once; /* instead: behind that step */
    bool asks;          /* each forward pass for its loss */

    double losses[TOY_STEPS_MAX + 1]; /* by step, from 1; 0 where none was seen */
    float norms[TOY_STEPS_MAX + 1];   /* of the gradient, before clipping */
    float clip;                       /* 0 = 1.0, negative = not called */
    float *weights;                   /* if not NULL: takes all parameters at the end, one by one */
    int64_t samples;                  /* dealt to this rank in completed steps */
    int64_t skipped;                  /* steps, by an overflow */
    double scale;                     /* of the loss at the end */
    int exit_code, status;
    char error[1024];
    char notices[4096];
};

/* How far two runs of the GPT over `steps` steps are apart, of which one sums in another order
 * (lib/rounding.h): losses and gradient norms relative, weights absolute. The loss of a model that
 * only guesses is TOY_GUESS. */
static const double TOY_GUESS = 4.86; /* log 128 */
struct toy_bounds {
    double losses, norms, weights;
};
struct toy_bounds toy_bounds(int steps);

/* Run to the end; fills the results. */
void toy_run(struct toy *toy);

/* toy_run as a thread's function. */
void *toy_thread(void *toy);

void toy_set(struct toy *toy, const char *name, const char *value);

#endif
