#include "examples/images/accuracy.h"

#include <math.h>
#include <string.h>

enum { SHARE_MAX = 1024 }; /* samples of a rank's part of a batch */

static const int32_t *labels_of(const struct wk_batch *batch)
{
    for (int i = 0; i < batch->n_tensors; i++)
        if (strcmp(batch->tensors[i].name, "label") == 0)
            return batch->tensors[i].data;
    return NULL;
}

double images_accuracy(struct wk_context *ctx, struct wk_model *model, struct wk_loader *loader)
{
    double right = 0, all = 0;
    int32_t likeliest[SHARE_MAX];
    for (struct wk_batch batch; wk_next(loader, &batch);) {
        const int32_t *labels = labels_of(&batch);
        if (batch.samples > SHARE_MAX || (batch.samples && !labels))
            return NAN;
        wk_evaluate(model, &batch, NULL, &(struct wk_outputs){.likeliest = likeliest});
        for (int64_t i = 0; i < batch.samples; i++)
            right += likeliest[i] == labels[i] ? 1 : 0;
        all += (double)batch.samples;
    }
    wk_reduce_value(ctx, &right, WK_SUM);
    wk_reduce_value(ctx, &all, WK_SUM);
    return right / all;
}
