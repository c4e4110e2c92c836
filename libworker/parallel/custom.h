/* Inside view of custom models (worker/parallel.h). */
#ifndef PARALLEL_CUSTOM_H
#define PARALLEL_CUSTOM_H

#include <stdbool.h>

#include <worker/types.h>

struct param;
struct wk_model;

bool model_is_custom(const struct wk_model *model);

/* Whether passes read this parameter's bits in `type`; and whether they multiply their loss with
 * the loss scale, because they take some parameter in f16. */
bool custom_takes(const struct param *param, enum wk_dtype type);
bool custom_carries_scale(const struct wk_model *model);

/* Addresses may have changed: write them into the arrays that the program bound. */
void custom_show_bound(struct wk_model *model);

#endif
