/* Brings the members of a new generation to one state. Collective. Owned by the program's thread.
 */
#ifndef STEP_AGREE_STATE_H
#define STEP_AGREE_STATE_H

#include "common/base/error.h"

struct wk_context;

/* WK_EPEER and similar codes if the generation broke meanwhile; other errors are final. */
int state_agree(struct wk_context *ctx, struct error *err);

#endif
