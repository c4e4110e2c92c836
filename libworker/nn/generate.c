/* Text from a model, one token at a time. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "libworker/nn/model.h"
#include "libworker/nn/outputs.h"
#include "libworker/nn/random.h"

/* Logits below this are no candidates: the k-th largest, found by counting, as vocabularies are
 * small beside a forward pass.
 */
static float kth_largest(const float *logits, int64_t vocab, int k)
{
    float bound = INFINITY;
    for (int64_t taken = 0; taken < k;) {
        float next = -INFINITY;
        for (int64_t i = 0; i < vocab; i++) {
            if (logits[i] < bound && logits[i] > next)
                next = logits[i];
        }
        for (int64_t i = 0; i < vocab; i++)
            taken += logits[i] == next;
        bound = next;
        if (next == -INFINITY)
            break;
    }
    return bound;
}

/* Draw from softmax(logits / temperature) with `chance` in [0, 1). */
static int32_t choose(const float *logits, int64_t vocab, const struct wk_generate_options *o,
                      double chance)
{
    int32_t best = likeliest_token(logits, vocab);
    if (o->temperature == 0)
        return best;
    float floor =
        o->top_k > 0 && o->top_k < vocab ? kth_largest(logits, vocab, o->top_k) : -INFINITY;
    double sum = 0;
    for (int64_t i = 0; i < vocab; i++) {
        if (logits[i] >= floor)
            sum += exp(((double)logits[i] - (double)logits[best]) / o->temperature);
    }
    double left = chance * sum;
    for (int32_t i = 0; i < vocab; i++) {
        if (logits[i] < floor)
            continue;
        left -= exp(((double)logits[i] - (double)logits[best]) / o->temperature);
        if (left < 0)
            return i;
    }
    return best;
}

/* The prompt and what follows it. */
struct text {
    int32_t *tokens; /* [total] */
    int64_t length, total;
};

/* The last `context` tokens are seen; logits is room for [vocab]. */
static int continue_text(struct wk_model *model, const struct wk_generate_options *options,
                         struct text *text, float *logits)
{
    uint64_t key = random_key(options->seed, "generate");
    for (; text->length < text->total; text->length++) {
        int64_t seen = text->length < model->context ? text->length : model->context;
        struct wk_batch batch = {
            .tokens = text->tokens + text->length - seen, .samples = 1, .length = seen};
        int rc = model_logits(model, &batch, logits, NULL);
        if (rc)
            return rc;
        double chance = random_uniform(key, (uint64_t)text->length);
        text->tokens[text->length] = choose(logits, model->vocab, options, chance);
    }
    return 0;
}

int wk_generate(struct wk_model *model, const struct wk_generate_options *options, int64_t count,
                int32_t *ret_tokens)
{
    if (count < 0 || options->prompt_length < 0 || !(options->temperature >= 0))
        return WK_EINVAL;
    int64_t prompt = options->prompt_length > 0 ? options->prompt_length : 1;
    struct text text = {.length = prompt, .total = prompt + count};
    text.tokens = calloc((size_t)text.total, sizeof(*text.tokens));
    float *logits = malloc((size_t)model->vocab * sizeof(*logits));
    int rc = text.tokens && logits ? 0 : WK_ENOMEM;
    if (!rc) {
        if (options->prompt_length > 0)
            memcpy(text.tokens, options->prompt, (size_t)prompt * sizeof(*text.tokens));
        rc = continue_text(model, options, &text, logits);
    }
    if (!rc)
        memcpy(ret_tokens, text.tokens + prompt, (size_t)count * sizeof(*text.tokens));
    free(logits);
    free(text.tokens);
    return rc;
}
