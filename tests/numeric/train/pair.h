/* One program that trains two models side by side, as a worker thread. Each step reads and updates
 * the first, then the second, which reads what the first has become (`coupled`): what is left out,
 * done twice or done in another order shows in every number after it.
 */
#ifndef TRAIN_PAIR_H
#define TRAIN_PAIR_H

#include "libworker/step/context.h"

enum { PAIR_STEPS = 24, PAIR_SETTINGS_MAX = 16, PAIR_WEIGHTS_MAX = 1 << 16 };

enum pair_place { PAIR_FORWARD, PAIR_SUMMED, PAIR_BETWEEN, PAIR_DONE };

struct pair {
    struct session *session; /* NULL: alone */
    struct wk_setting settings[PAIR_SETTINGS_MAX];
    int n_settings;
    int64_t total;   /* steps; 0 = PAIR_STEPS */
    bool coupled;    /* custom models with passes of the program's own; else a GPT and an MLP */
    bool frozen;     /* the first has no optimizer: a teacher */
    int rests;       /* the second steps in every so many-th step only; 0 = every */
    int repeats;     /* the first steps so many times in a step, on its batch; 0 = once */
    bool own_loader; /* the second has batches of its own */
    bool own_data;   /* the program's instead of a loader's: wk_join */

    /* Called in every step before the first's window ends, once its sums are there, between the two
     * optimizer steps, and at the end; true ends the run there. */
    bool (*at)(void *arg, struct wk_context *ctx, enum pair_place place);
    void *arg;

    double losses[2][PAIR_STEPS + 1]; /* by step, from 1; 0 where none was seen */
    float norms[2][PAIR_STEPS + 1];
    double rates[2][PAIR_STEPS + 1];
    float weights[PAIR_WEIGHTS_MAX]; /* of both at the end */
    double scales[2];                /* of their losses at the end */
    int64_t steps, skipped;          /* taken; windows of either that overflowed */
    int status, exit_code;
    char error[1024];
    char notices[4096];
};

void pair_set(struct pair *pair, const char *name, const char *value);

/* Run to the end of PAIR_STEPS; fills the results. pair_thread as a thread's function. */
void pair_run(struct pair *pair);
void *pair_thread(void *pair);

/* The largest differences over both models: of losses, norms and rates relative to a's, of weights
 * absolute. Steps that one of them has not seen are left out. */
struct pair_apart {
    double losses, norms, rates, weights;
};
struct pair_apart pair_apart(const struct pair *a, const struct pair *b);

#endif
