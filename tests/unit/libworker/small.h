/* A context of one process with the smallest things to train in it. */
#ifndef LIBWORKER_SMALL_H
#define LIBWORKER_SMALL_H

#include "libworker/step/context.h"

struct small {
    struct wk_context *ctx;
    struct wk_source *source;
    struct wk_loader *loader;
    struct wk_model *model; /* one layer, a context of 8 tokens */
    struct wk_optimizer *optimizer;
    struct wk_scheduler *scheduler;
};

/* Open with settings "name=value", ended by NULL; make the objects. */
void small_open(struct small *s, const char *const *settings);
int small_prepare(struct small *s); /* all of them */
void small_close(struct small *s);  /* and free the objects */

/* What its optimizer updates, once prepared. */
const struct strategy_range *small_range(const struct small *s);

#endif
