/* How well a model names images that it was not trained on. */
#ifndef IMAGES_ACCURACY_H
#define IMAGES_ACCURACY_H

#include <worker/worker.h>

/* Share of the samples of an evaluation loader whose field "label" is the class with the largest of
 * the model's "logits". All ranks call it and get the same; NaN if the evaluation was cut short. */
double images_accuracy(struct wk_context *ctx, struct wk_model *model, struct wk_loader *loader);

#endif
