/* Agrees on a state that is cut over the members, where no member can send more than it has. If the
 * members together have all parts of one step, the parts are moved to the new cut. If one is
 * missing, all load the last checkpoint and continue in place. */
#ifndef STEP_AGREE_SHARDS_H
#define STEP_AGREE_SHARDS_H

#include "common/base/error.h"

struct wk_context;

/* As state_agree. */
int shards_agree(struct wk_context *ctx, struct error *err);

#endif
