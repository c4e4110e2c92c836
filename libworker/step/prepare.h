/* Making objects ready, and finding the context of a prepared one. Private to step/. */
#ifndef STEP_PREPARE_H
#define STEP_PREPARE_H

#include <worker/error.h>

struct wk_context;
struct wk_model;
struct wk_optimizer;

/* The context an object was prepared in, or NULL. */
struct wk_context *prepare_context_of_model(const struct wk_model *model);
struct wk_context *prepare_context_of_optimizer(const struct wk_optimizer *optimizer);

/* What a call on an object of no context returns: it was not prepared, or not even made. */
static inline int prepare_missing(const void *object)
{
    return object ? WK_ESTATE : WK_EINVAL;
}

/* Objects become unprepared again and the arenas are freed. */
void prepare_undo(struct wk_context *ctx);

/* A model's announcements; their argument is the context. */
void step_grad_ready(void *arg, int index);

#endif
