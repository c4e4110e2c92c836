/* Ranks that train one model must have equal settings and objects, as far as these shape the
 * mathematics. When a generation meets, each rank describes them in words, which are compared by
 * digest. Rank 0 is the reference, so that all refuse for the same reason; the words themselves are
 * sent only then. */
#ifndef STEP_AGREE_CONFIG_H
#define STEP_AGREE_CONFIG_H

#include "common/base/error.h"

struct wk_context;

/* All ranks call it, with prepared objects. WK_EMISMATCH on all ranks, naming the first difference.
 */
int config_agree(struct wk_context *ctx, struct error *err);

#endif
