/* The training state that must survive, as tensors and numbers. A checkpoint contains exactly this,
 * and members of a generation compare it. Owned by the program's thread.
 */
#ifndef STEP_STATE_H
#define STEP_STATE_H

#include <stdbool.h>

#include "common/base/error.h"
#include "common/base/rng.h"
#include "libworker/checkpoint/folder.h"
#include "libworker/checkpoint/numbers.h"

struct wk_context;

struct state {
    struct train_numbers numbers; /* as of the last completed step; loaders' in `committed` */
    struct rng rng;               /* as advanced in the step in progress */
    bool trained;                 /* this rank has training state, not just initial values */
    bool partial; /* neither: its arrays are in part those of a member that was lost meanwhile */
};

/* Table of all tensors; malloced, the caller frees it. Buffers are the host's copies
 * (carried.h): all ranks load them, the first part saves them. */
enum state_use { STATE_SAVES, STATE_LOADS };
int state_tensors(struct wk_context *ctx, enum state_use use, struct checkpoint_tensor **ret,
                  int *ret_count, struct error *err);
void state_numbers(const struct wk_context *ctx, struct train_numbers *ret);

/* These numbers, and tensors that have arrived, are now this rank's state. */
void state_adopt(struct wk_context *ctx, const struct train_numbers *numbers);

/* state_load: fill the state from one checkpoint. state_newest: the newest checkpoint's path, or
 * "". */
int state_load(struct wk_context *ctx, const char *path, struct error *err);
int state_newest(struct wk_context *ctx, char ret[CHECKPOINT_PATH_MAX], struct error *err);

/* Add a notice if resume_from "latest" found no checkpoint. */
void state_begins(struct wk_context *ctx);

/* The last of `tried` checkpoints could not be loaded either; err has the reason. */
void state_none_left(int tried, struct error *err);

#endif
