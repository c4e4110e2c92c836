/* Inside view of custom models (worker/parallel.h). */
#ifndef PARALLEL_CUSTOM_H
#define PARALLEL_CUSTOM_H

#include <stdbool.h>

struct wk_model;

bool model_is_custom(const struct wk_model *model);

#endif
