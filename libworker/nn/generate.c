/* Texts from a model, one token at a time. */
#include <stdlib.h>
#include <string.h>

#include <worker/worker.h>

#include "libworker/nn/choose.h"
#include "libworker/nn/decode.h"
#include "libworker/nn/model.h"
#include "libworker/nn/random.h"

enum { TEXTS_MAX = 1 << 20, LENGTH_MAX = 1 << 30 };

/* One text: its prompt, then what follows. */
struct row {
    int32_t *tokens; /* [total]; token 0 where there is none yet */
    int64_t prompt;
    int64_t end; /* of what was chosen */
    uint64_t key;
    bool done;
};

/* Texts that are continued together: all are computed at the same position. A text with a longer
 * prompt has its own token there, others choose one. */
struct texts {
    struct wk_model *model;
    const struct wk_generate_options *options;
    struct row *rows; /* [n] */
    int64_t n, count, total;
    int64_t seen; /* positions that the cache has room for */
    int64_t past; /* of them there */
    bool caches;
    int32_t *tokens, *feed; /* [n, total] and what a pass gets of them [n, seen] */
    float *logits, *room;   /* [n, vocab] and [vocab] */
};

static int64_t smaller(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

/* The tokens [first, end) of all texts. */
static struct wk_batch batch_of(const struct texts *t, int64_t first, int64_t end)
{
    int64_t length = end - first;
    for (int64_t i = 0; i < t->n; i++)
        memcpy(t->feed + i * length, t->rows[i].tokens + first, (size_t)length * sizeof(*t->feed));
    return (struct wk_batch){.tokens = t->feed, .samples = t->n, .length = length};
}

/* The logits after `at` tokens: what is not in the cache, then the last position alone. Once the
 * texts are longer than it, every token is at another position than before. */
static int compute(struct texts *t, int64_t at, struct error *err)
{
    int64_t first = at - smaller(at, t->seen);
    struct wk_batch batch;
    if (!t->caches) {
        batch = batch_of(t, first, at);
        return model_logits(t->model, &batch, t->logits, err);
    }
    if (first > 0)
        t->past = 0;
    if (first + t->past < at - 1) {
        batch = batch_of(t, first + t->past, at - 1);
        int rc = decode_pass(t->model, &batch, t->past, NULL, err);
        if (rc)
            return rc;
    }
    batch = batch_of(t, at - 1, at);
    t->past = at - first;
    return decode_pass(t->model, &batch, t->past - 1, t->logits, err);
}

static bool is_stop(const struct wk_generate_options *o, int32_t token)
{
    bool is = false;
    for (int i = 0; i < o->n_stop; i++)
        is |= o->stop[i] == token;
    return is;
}

static bool chooses_at(const struct row *row, int64_t at)
{
    return !row->done && row->prompt <= at;
}

static void choose_tokens(struct texts *t, int64_t at)
{
    const struct wk_generate_options *o = t->options;
    struct choice how = {o->temperature, o->top_k, o->top_p};
    int64_t vocab = t->model->vocab;
    for (int64_t i = 0; i < t->n; i++) {
        struct row *row = &t->rows[i];
        if (!chooses_at(row, at))
            continue;
        double chance = random_uniform(row->key, (uint64_t)at);
        row->tokens[at] = choose_token(t->logits + i * vocab, vocab, &how, chance, t->room);
        row->end = at + 1;
        row->done = row->end == row->prompt + t->count || is_stop(o, row->tokens[at]);
    }
}

static int continue_texts(struct texts *t, struct error *err)
{
    for (int64_t at = 1; at < t->total; at++) {
        bool choose = false;
        for (int64_t i = 0; i < t->n; i++)
            choose |= chooses_at(&t->rows[i], at);
        if (!choose)
            continue;
        int rc = compute(t, at, err);
        if (rc)
            return rc;
        choose_tokens(t, at);
    }
    return 0;
}

static int64_t prompt_of(const struct wk_text *text)
{
    return text->prompt_length > 0 ? text->prompt_length : 1;
}

static void fill_rows(struct texts *t, const struct wk_text *texts)
{
    for (int64_t i = 0; i < t->n; i++) {
        const struct wk_text *text = &texts[i];
        t->rows[i] = (struct row){.tokens = t->tokens + i * t->total,
                                  .prompt = prompt_of(text),
                                  .end = prompt_of(text),
                                  .key = random_key(text->seed, "generate")};
        if (text->prompt_length > 0)
            memcpy(t->rows[i].tokens, text->prompt,
                   (size_t)text->prompt_length * sizeof(*text->prompt));
    }
}

/* The tokens that follow each prompt; the rest repeats the last one. */
static void copy_rows(const struct texts *t, struct wk_text *texts)
{
    for (int64_t i = 0; i < t->n; i++) {
        const struct row *row = &t->rows[i];
        texts[i].length = row->end - row->prompt;
        for (int64_t k = 0; k < t->count; k++)
            texts[i].tokens[k] = row->tokens[smaller(row->prompt + k, row->end - 1)];
    }
}

static void free_texts(struct texts *t)
{
    free(t->rows);
    free(t->tokens);
    free(t->feed);
    free(t->logits);
    free(t->room);
}

static int allocate_texts(struct texts *t, struct error *err)
{
    size_t n = (size_t)t->n, vocab = (size_t)t->model->vocab;
    t->rows = calloc(n, sizeof(*t->rows));
    t->tokens = calloc(n * (size_t)t->total, sizeof(*t->tokens));
    t->feed = malloc(n * (size_t)t->seen * sizeof(*t->feed) + 1);
    t->logits = malloc(n * vocab * sizeof(*t->logits) + 1);
    t->room = malloc(vocab * sizeof(*t->room) + 1);
    if (t->rows && t->tokens && t->feed && t->logits && t->room)
        return 0;
    return error_set(err, WK_ENOMEM, "no memory for %lld texts of %lld tokens", (long long)t->n,
                     (long long)t->total);
}

static int generate_none(struct wk_text *texts, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        texts[i].length = 0;
    return 0;
}

/* A model without a cache computes each token from all that it sees. */
static int generate(struct texts *t, struct wk_text *texts, struct error *err)
{
    if (t->count == 0)
        return generate_none(texts, t->n);
    for (int64_t i = 0; i < t->n; i++) {
        if (t->total < prompt_of(&texts[i]) + t->count)
            t->total = prompt_of(&texts[i]) + t->count;
    }
    t->seen = smaller(t->total, t->model->context);
    int rc = allocate_texts(t, err);
    if (!rc) {
        fill_rows(t, texts);
        rc = decode_begin(t->model, t->n, t->seen, err);
        t->caches = !rc;
        rc = rc == WK_EUNSUPPORTED ? 0 : rc;
    }
    if (!rc)
        rc = continue_texts(t, err);
    if (t->caches)
        decode_end(t->model);
    if (!rc)
        copy_rows(t, texts);
    free_texts(t);
    return rc;
}

static int check_model(const struct wk_model *model, const struct wk_generate_options *options,
                       struct error *err)
{
    const char *why = error_kept_of(WK_OBJECT_MODEL);
    if (!model)
        return error_set(err, WK_EINVAL, "wk_generate of NULL instead of a model%s%s",
                         *why ? ": " : "", why);
    if (!options)
        return error_set(err, WK_EINVAL, "wk_generate was given no options");
    if (!(options->top_p >= 0 && options->top_p <= 1))
        return error_set(err, WK_EINVAL, "wk_generate with a top_p of %g: it is in 0 to 1",
                         options->top_p);
    if (options->n_stop < 0 || (options->n_stop > 0 && !options->stop))
        return error_set(err, WK_EINVAL, "wk_generate was given no list of %d stop tokens",
                         options->n_stop);
    return 0;
}

static int check_text(const struct wk_text *text, const struct wk_generate_options *options,
                      int64_t count, struct error *err)
{
    if (count < 0 || text->prompt_length < 0 || !(options->temperature >= 0))
        return error_set(err, WK_EINVAL,
                         "wk_generate of %lld tokens after %lld at a temperature of %g: none may "
                         "be below 0",
                         (long long)count, (long long)text->prompt_length, options->temperature);
    if (count > LENGTH_MAX || text->prompt_length > LENGTH_MAX)
        return error_set(err, WK_EINVAL, "wk_generate of %lld tokens after %lld: at most %d each",
                         (long long)count, (long long)text->prompt_length, LENGTH_MAX);
    if (text->prompt_length > 0 && !text->prompt)
        return error_set(err, WK_EINVAL, "wk_generate was given no prompt of %lld tokens",
                         (long long)text->prompt_length);
    if (count > 0 && !text->tokens)
        return error_set(err, WK_EINVAL, "wk_generate was given no place for %lld tokens",
                         (long long)count);
    return 0;
}

static int check_texts(const struct wk_model *model, const struct wk_generate_options *options,
                       struct wk_text *texts, const int64_t sizes[2], struct error *err)
{
    int rc = check_model(model, options, err);
    if (rc)
        return rc;
    if (sizes[0] < 1 || sizes[0] > TEXTS_MAX || !texts)
        return error_set(err, WK_EINVAL, "wk_generate_batch of %lld texts; it takes 1 to %d",
                         (long long)(texts ? sizes[0] : 0), TEXTS_MAX);
    for (int64_t i = 0; i < sizes[0] && !rc; i++)
        rc = check_text(&texts[i], options, sizes[1], err);
    return rc;
}

int wk_generate_batch(struct wk_model *model, const struct wk_generate_options *options,
                      struct wk_text *texts, int64_t n, int64_t count)
{
    static const struct error_ear thread;
    struct error err = {0};
    struct texts together = {.model = model, .options = options, .n = n, .count = count};
    int rc = check_texts(model, options, texts, (int64_t[]){n, count}, &err);
    if (!rc)
        rc = generate(&together, texts, &err);
    return rc ? error_tell(model ? &model->ear : &thread, &err, false) : 0;
}

int wk_generate(struct wk_model *model, const struct wk_generate_options *options, int64_t count,
                int32_t *ret_tokens)
{
    struct wk_text text = {.tokens = ret_tokens};
    if (options) {
        text.prompt = options->prompt;
        text.prompt_length = options->prompt_length;
        text.seed = options->seed;
    }
    return wk_generate_batch(model, options, &text, 1, count);
}
