/* Agrees on missing memory. A rank that failed alone would leave the others waiting in the next
 * collective until its process has ended. */
#ifndef STEP_AGREE_MEMORY_H
#define STEP_AGREE_MEMORY_H

#include <stdbool.h>

#include "common/base/error.h"

struct wk_context;

/* Check that all ranks have the memory for `what` ("gather metrics"). All ranks call it before a
 * collective for which one may lack buffers. WK_ENOMEM on all ranks if one lacks it, or the code of
 * a collective. */
int memory_agree(struct wk_context *ctx, bool has, const char *what, struct error *err);

#endif
