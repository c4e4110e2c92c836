/* Inside view of custom models (worker/parallel.h). */
#ifndef PARALLEL_CUSTOM_H
#define PARALLEL_CUSTOM_H

#include <stdbool.h>

struct wk_model;

bool model_is_custom(const struct wk_model *model);

/* Copy the program's initial values into the bound memory: of one parameter, of all. */
void custom_fill(struct wk_model *model, int index);
void custom_apply_initial(struct wk_model *model);

#endif
