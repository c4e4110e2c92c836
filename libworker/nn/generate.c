/* Text from a model, one token at a time. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include <worker/worker.h>

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
                         struct text *text, float *logits, struct error *err)
{
    uint64_t key = random_key(options->seed, "generate");
    for (; text->length < text->total; text->length++) {
        int64_t seen = text->length < model->context ? text->length : model->context;
        struct wk_batch batch = {
            .tokens = text->tokens + text->length - seen, .samples = 1, .length = seen};
        int rc = model_logits(model, &batch, logits, err);
        if (rc)
            return rc;
        double chance = random_uniform(key, (uint64_t)text->length);
        text->tokens[text->length] = choose(logits, model->vocab, options, chance);
    }
    return 0;
}

static int check(const struct wk_model *model, const struct wk_generate_options *options,
                 int64_t count, struct error *err)
{
    const char *why = error_kept_of(WK_OBJECT_MODEL);
    if (!model)
        return error_set(err, WK_EINVAL, "wk_generate of NULL instead of a model%s%s",
                         *why ? ": " : "", why);
    if (!options)
        return error_set(err, WK_EINVAL, "wk_generate was given no options");
    if (count < 0 || options->prompt_length < 0 || !(options->temperature >= 0))
        return error_set(err, WK_EINVAL,
                         "wk_generate of %lld tokens after %lld at a temperature of %g: none may "
                         "be below 0",
                         (long long)count, (long long)options->prompt_length, options->temperature);
    if (options->prompt_length > 0 && !options->prompt)
        return error_set(err, WK_EINVAL, "wk_generate was given no prompt of %lld tokens",
                         (long long)options->prompt_length);
    return 0;
}

static int generate(struct wk_model *model, const struct wk_generate_options *options,
                    int64_t count, int32_t *ret_tokens, struct error *err)
{
    int64_t prompt = options->prompt_length > 0 ? options->prompt_length : 1;
    struct text text = {.length = prompt, .total = prompt + count};
    text.tokens = calloc((size_t)text.total, sizeof(*text.tokens));
    float *logits = malloc((size_t)model->vocab * sizeof(*logits) + 1);
    int rc = text.tokens && logits
                 ? 0
                 : error_set(err, WK_ENOMEM, "no memory for %lld tokens", (long long)text.total);
    if (!rc) {
        if (options->prompt_length > 0)
            memcpy(text.tokens, options->prompt, (size_t)prompt * sizeof(*text.tokens));
        rc = continue_text(model, options, &text, logits, err);
    }
    if (!rc)
        memcpy(ret_tokens, text.tokens + prompt, (size_t)count * sizeof(*text.tokens));
    free(logits);
    free(text.tokens);
    return rc;
}

int wk_generate(struct wk_model *model, const struct wk_generate_options *options, int64_t count,
                int32_t *ret_tokens)
{
    static const struct error_ear thread;
    struct error err = {0};
    int rc = check(model, options, count, &err);
    if (!rc)
        rc = generate(model, options, count, ret_tokens, &err);
    return rc ? error_tell(model ? &model->ear : &thread, &err, false) : 0;
}
