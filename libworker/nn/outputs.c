#include "libworker/nn/outputs.h"

#include <string.h>

#include "libworker/nn/model.h"

int32_t likeliest_token(const float *logits, int64_t vocab)
{
    int32_t best = 0;
    for (int32_t i = 1; i < vocab; i++) {
        if (logits[i] > logits[best])
            best = i;
    }
    return best;
}

void outputs_clear(const struct wk_model *model, const struct wk_batch *batch,
                   const struct wk_outputs *outputs)
{
    if (batch->samples <= 0 || batch->length <= 0)
        return;
    size_t rows = (size_t)(batch->samples * batch->length);
    if (outputs->losses)
        memset(outputs->losses, 0, rows * sizeof(*outputs->losses));
    if (outputs->likeliest)
        memset(outputs->likeliest, 0, rows * sizeof(*outputs->likeliest));
    if (outputs->logits)
        memset(outputs->logits, 0, rows * (size_t)model->vocab * sizeof(*outputs->logits));
}
