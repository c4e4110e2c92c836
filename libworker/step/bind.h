/* Assigns memory to prepared objects and connects them with the context. Owned by the program's
 * thread. */
#ifndef STEP_BIND_H
#define STEP_BIND_H

#include "common/base/error.h"

struct wk_context;

/* For the present rank and world. WK_ENOMEM, and what reading values returns. */
int bind_all(struct wk_context *ctx, struct error *err);

/* Cut the models again for the present rank and world; their state is lost. */
int bind_again(struct wk_context *ctx, struct error *err);

/* Make the objects unprepared again and free their memory. */
void bind_undo(struct wk_context *ctx);

#endif
