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

double outputs_take(const struct kernel_table *kernels, const struct kernel_entropy *entropy,
                    float *logits, const struct wk_outputs *outputs)
{
    int64_t vocab = entropy->vocab;
    double sum = 0;
    if (outputs->logits)
        memcpy(outputs->logits, logits, (size_t)(entropy->rows * vocab) * sizeof(*logits));
    for (int64_t r = 0; r < entropy->rows; r++) {
        float *row = logits + r * vocab;
        if (outputs->likeliest)
            outputs->likeliest[r] = likeliest_token(row, vocab);
        if (!entropy->targets)
            continue;
        struct kernel_entropy one = {1, vocab, &entropy->targets[r], entropy->smoothing};
        double loss = kernels->cross_entropy_forward(&one, row);
        if (outputs->losses)
            outputs->losses[r] = (float)loss;
        sum += loss;
    }
    return sum;
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
