/* Joining generations, and re-forming in place. Collective. Owned by the program's thread. */
#ifndef STEP_GENERATION_H
#define STEP_GENERATION_H

#include "common/base/error.h"

struct wk_context;

/* Connect to the first generation. */
int context_join(struct wk_context *ctx, struct error *err);

/* Leave the rest of the old generation, join new ones until one succeeds, and bring all members to
 * the same state. */
int context_reform(struct wk_context *ctx, struct error *err);

/* Start the strategy with the members of a new generation, after they were found alike. All ranks
 * call it. WK_EMISMATCH on all ranks; a curable code if the generation broke meanwhile. */
int context_meet(struct wk_context *ctx, struct error *err);

#endif
