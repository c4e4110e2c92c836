/* Texts with a cache of keys and values: the logits are those of a pass over the whole text but for
 * rounding, and so are the texts, for GPT, Llama and a graph with a sliding window, in every type,
 * alone and in a batch, within the context and beyond it. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include <worker/graph.h>
#include <worker/worker.h>

#include "libworker/nn/decode.h"
#include "libworker/nn/random.h"
#include "tests/lib/check.h"
#include "tests/lib/rounding.h"

enum { CONTEXT = 24, VOCAB = 37, WIDTH = 16, LAYERS = 2, SAMPLES = 3, TEXT = 2 * CONTEXT };
enum { GPT, LLAMA, QWEN, SLIDING, MLP, KINDS };

/* Behind a logit: per layer two norms, the products in and out of attention and of the hidden
 * layer, and attention over the text; then a norm and the head. */
enum { SUMMED = LAYERS * (8 * WIDTH + 4 * WIDTH + 2 * CONTEXT) + 2 * WIDTH };
/* Those to a narrow type: inputs of the four products, queries, keys and values, probabilities. */
enum { NARROWED = LAYERS * 8 + 1 };

static struct wk_model *sliding(void)
{
    struct wk_graph *g = wk_graph_new("sliding");
    struct wk_tensor *tokens = wk_graph_input(g, "tokens", WK_I32, WK_SHAPE(WK_SAMPLES, WK_LENGTH));
    struct wk_tensor *targets =
        wk_graph_input(g, "targets", WK_I32, WK_SHAPE(WK_SAMPLES, WK_LENGTH));
    struct wk_rope_options rope = {.heads = 6, .size = 4, .theta = 100};
    struct wk_attention_options attention = {.heads = 4, .kv_heads = 2, .window = 5};
    struct wk_model *model = NULL;
    wk_graph_max_length(g, CONTEXT);
    struct wk_tensor *x = wk_layer_embedding(tokens, "embed", VOCAB, WIDTH);
    for (int i = 0; i < LAYERS; i++) {
        wk_graph_block(g, i ? "second" : "first");
        struct wk_tensor *y =
            wk_layer_linear(wk_layer_norm(x, i ? "n1" : "n0"), i ? "qkv1" : "qkv0", 2 * WIDTH);
        x = wk_op_add(x, wk_op_attention(wk_op_rope(y, &rope), &attention));
    }
    x = wk_op_reshape(x, WK_SHAPE(WK_SAMPLES, WK_LENGTH, 2, WIDTH / 2));
    x = wk_op_reshape(wk_op_softmax(x), WK_SHAPE(WK_SAMPLES, WK_LENGTH, WIDTH));
    x = wk_layer_linear(x, "head", VOCAB);
    wk_graph_output(g, "logits", x);
    wk_graph_loss(g, "loss", wk_op_cross_entropy(x, targets, NULL), NULL);
    CHECK(wk_graph_model(g, &model) == 0);
    return model;
}

/* Heads of the size that the others have, so that as much is summed. */
static void add_all(struct wk_llama_config *llama)
{
    llama->head_size = 6;
    llama->heads = 3;
    llama->kv_heads = 1;
    llama->qkv_bias = llama->out_bias = llama->mlp_bias = llama->qk_norm = true;
    llama->window = 7;
    llama->window_layer = 1;
    llama->rope_scaling = (struct wk_rope_scaling){
        .type = WK_ROPE_YARN, .factor = 4, .original_context = 8, .low = 1, .high = 4};
}

static struct wk_model *model_of(int kind)
{
    struct wk_model *model = NULL;
    struct wk_gpt_config gpt = {LAYERS, 2, WIDTH, CONTEXT, VOCAB};
    struct wk_llama_config llama = {.layers = LAYERS,
                                    .heads = 4,
                                    .kv_heads = 2,
                                    .width = WIDTH,
                                    .inner = 24,
                                    .context = CONTEXT,
                                    .vocab = VOCAB,
                                    .rope_theta = 10000,
                                    .norm_epsilon = 1e-5};
    struct wk_mlp_config mlp = {LAYERS, 3, 8, WIDTH, CONTEXT, VOCAB};
    if (kind == SLIDING)
        return sliding();
    if (kind == QWEN)
        add_all(&llama);
    CHECK((kind == GPT   ? wk_gpt_new(&gpt, &model)
           : kind == MLP ? wk_mlp_new(&mlp, &model)
                         : wk_llama_new(&llama, &model)) == 0);
    return model;
}

/* A model with memory, computing in `type`. */
struct subject {
    struct wk_model *model;
    float *params;
    uint16_t *low;
    double apart; /* of logits, beside the largest */
};

/* So that texts matter: attention is far from even. But not the factors of norms: behind those of
 * queries and keys, scores would be so large that their rounding decides. */
static void enlarge(const struct param *param)
{
    for (size_t i = 0; i < param->count && param->dims > 1; i++)
        param->data[i] *= 8;
}

static struct subject subject_new(int kind, enum wk_dtype type)
{
    struct subject s = {.model = model_of(kind)};
    s.params = calloc(s.model->count, sizeof(*s.params));
    s.low = calloc(s.model->count, sizeof(*s.low));
    CHECK(model_bind(s.model, s.params, NULL) == 0);
    CHECK(wk_model_init(s.model, 3) == 0);
    for (int i = 0; i < s.model->n_params && kind != MLP; i++)
        enlarge(&s.model->params[i]);
    if (type != WK_F32)
        model_write_low(s.model, type, s.low);
    CHECK(model_set_compute(s.model, type, s.low, NULL) == 0);
    s.apart = rounding_bound(SUMMED);
    if (type != WK_F32)
        s.apart += rounding_apart(type == WK_BF16 ? ROUNDING_BF16 : ROUNDING_F16, NARROWED);
    return s;
}

static void subject_free(struct subject *s)
{
    wk_model_free(s->model);
    free(s->params);
    free(s->low);
}

static int32_t token_at(int64_t sample, int64_t at)
{
    return (int32_t)(random_bits(7, (uint64_t)(sample * CONTEXT + at)) % VOCAB);
}

/* Of all samples. */
static struct wk_batch part_of(int64_t first, int64_t end, int32_t *room)
{
    for (int64_t s = 0; s < SAMPLES; s++) {
        for (int64_t at = first; at < end; at++)
            room[s * (end - first) + at - first] = token_at(s, at);
    }
    return (struct wk_batch){.tokens = room, .samples = SAMPLES, .length = end - first};
}

static double largest(const float *logits, int64_t n)
{
    double most = 0;
    for (int64_t i = 0; i < n; i++)
        most = fmax(most, fabs((double)logits[i]));
    return most;
}

/* The logits after `end` positions, of which the cache has `past`. */
static void compare_after(const struct subject *s, int64_t past, int64_t end)
{
    float cached[SAMPLES * VOCAB], whole[SAMPLES * VOCAB];
    int32_t room[SAMPLES * CONTEXT];
    struct wk_batch batch = part_of(past, end, room);
    CHECK(decode_pass(s->model, &batch, past, cached, NULL) == 0);
    batch = part_of(0, end, room);
    CHECK(model_logits(s->model, &batch, whole, NULL) == 0);
    double most = largest(whole, SAMPLES * VOCAB);
    for (int i = 0; i < SAMPLES * VOCAB; i++)
        CHECK(fabs((double)cached[i] - (double)whole[i]) <= s->apart * most);
}

/* One position each; several at once; and some that are only kept. */
static void logits_follow(int kind, enum wk_dtype type)
{
    static const int64_t ends[][8] = {{1, 2, 3, 4, 5, 6, 7, 0}, {7, 8, 9, 15, 16, CONTEXT, 0}};
    struct subject s = subject_new(kind, type);
    int32_t room[SAMPLES * CONTEXT];
    for (int c = 0; c < 2; c++) {
        CHECK(decode_begin(s.model, SAMPLES, CONTEXT, NULL) == 0);
        for (int i = 0; ends[c][i]; i++)
            compare_after(&s, i ? ends[c][i - 1] : 0, ends[c][i]);
        struct wk_batch kept = part_of(0, 9, room);
        CHECK(decode_pass(s.model, &kept, 0, NULL, NULL) == 0);
        compare_after(&s, 9, 10);
        compare_after(&s, 10, CONTEXT);
        decode_end(s.model);
    }
    subject_free(&s);
}

/* Each token is the likeliest by a pass over the last CONTEXT tokens, or so near that rounding
 * decides; in float it is, with room to spare. */
static void expect_likeliest(const struct subject *s, const int32_t *text, int64_t from,
                             int64_t end)
{
    float logits[VOCAB];
    for (int64_t at = from; at < end; at++) {
        int64_t seen = at < CONTEXT ? at : CONTEXT;
        struct wk_batch batch = {.tokens = text + at - seen, .samples = 1, .length = seen};
        CHECK(model_logits(s->model, &batch, logits, NULL) == 0);
        double most = largest(logits, VOCAB), best = -INFINITY;
        for (int i = 0; i < VOCAB; i++)
            best = fmax(best, (double)logits[i]);
        CHECK((double)logits[text[at]] >= best - 2 * s->apart * most);
    }
}

static void texts_follow(int kind, enum wk_dtype type)
{
    struct subject s = subject_new(kind, type);
    int32_t text[5 + TEXT];
    for (int i = 0; i < 5; i++)
        text[i] = token_at(0, i);
    struct wk_generate_options o = {.prompt = text, .prompt_length = 5};
    CHECK(wk_generate(s.model, &o, TEXT, text + 5) == 0);
    expect_likeliest(&s, text, 5, 5 + TEXT);
    subject_free(&s);
}

enum { TEXTS = 4, FOLLOWS = 30 };
static const int64_t lengths[TEXTS] = {3, 0, CONTEXT + 5, 9};

static void begin(struct wk_text *text, int64_t number, int32_t *prompt, int32_t *follows)
{
    for (int64_t i = 0; i < lengths[number]; i++)
        prompt[i] = token_at(number, i);
    *text = (struct wk_text){.prompt = lengths[number] ? prompt : NULL,
                             .prompt_length = lengths[number],
                             .seed = 5 + (uint64_t)number % 2,
                             .tokens = follows};
}

/* Only the last token of a text is a stop token, and the rest repeats it. */
static void expect_ends(const struct wk_text *text, const struct wk_generate_options *options)
{
    int64_t last = text->length - 1;
    CHECK(last >= 0 && last < FOLLOWS);
    for (int64_t k = 0; k < last && options->n_stop; k++)
        CHECK(text->tokens[k] != options->stop[0]);
    for (int64_t k = last; k < FOLLOWS - 1; k++)
        CHECK(options->n_stop && text->tokens[k] == options->stop[0]);
}

/* Texts of a batch are those that each prompt has alone. Returns how many ended early. */
static int compare_batch(struct wk_model *model, const struct wk_generate_options *options)
{
    static int32_t prompts[TEXTS][2 * CONTEXT], together[TEXTS][FOLLOWS], alone[FOLLOWS];
    struct wk_text texts[TEXTS];
    int ended = 0;
    for (int i = 0; i < TEXTS; i++)
        begin(&texts[i], i, prompts[i], together[i]);
    CHECK(wk_generate_batch(model, options, texts, TEXTS, FOLLOWS) == 0);
    for (int i = 0; i < TEXTS; i++) {
        struct wk_generate_options single = *options;
        single.prompt = texts[i].prompt;
        single.prompt_length = texts[i].prompt_length;
        single.seed = texts[i].seed;
        CHECK(wk_generate(model, &single, FOLLOWS, alone) == 0);
        CHECK(memcmp(alone, together[i], sizeof(alone)) == 0);
        expect_ends(&texts[i], options);
        ended += texts[i].length < FOLLOWS;
    }
    return ended;
}

static void batches_are_their_texts(int kind)
{
    static const int32_t stop[] = {4, 11};
    struct subject s = subject_new(kind, WK_F32);
    struct wk_generate_options o = {0};
    CHECK(compare_batch(s.model, &o) == 0);
    o.temperature = 1;
    o.top_p = 0.95;
    CHECK(compare_batch(s.model, &o) == 0);
    o.temperature = 20;
    o.stop = stop;
    o.n_stop = 1;
    CHECK(compare_batch(s.model, &o) > 0);
    subject_free(&s);
}

/* Any of several ends a text, and is its last. */
static void stops(void)
{
    struct subject s = subject_new(LLAMA, WK_F32);
    int32_t prompt[2] = {1, 2}, whole[FOLLOWS] = {0}, cut[FOLLOWS], stop[2];
    struct wk_text text = {.prompt = prompt, .prompt_length = 2, .seed = 3, .tokens = whole};
    struct wk_generate_options o = {.temperature = 20};
    CHECK(wk_generate_batch(s.model, &o, &text, 1, FOLLOWS) == 0 && text.length == FOLLOWS);
    stop[0] = whole[20];
    stop[1] = whole[6];
    int64_t first = 0;
    while (whole[first] != stop[0] && whole[first] != stop[1])
        first++;
    o.stop = stop;
    o.n_stop = 2;
    text.tokens = cut;
    CHECK(wk_generate_batch(s.model, &o, &text, 1, FOLLOWS) == 0);
    CHECK(text.length == first + 1);
    for (int64_t i = 0; i < FOLLOWS; i++)
        CHECK(cut[i] == whole[i < first ? i : first]);
    subject_free(&s);
}

/* A graph with this in its middle cannot decode, and still generates. */
static void expect_refused(struct wk_tensor *(*mixed)(struct wk_tensor *), const char *sentence)
{
    struct wk_graph *g = wk_graph_new("mixing");
    struct wk_tensor *tokens = wk_graph_input(g, "tokens", WK_I32, WK_SHAPE(WK_SAMPLES, WK_LENGTH));
    struct wk_model *model;
    struct error err = {0};
    wk_graph_max_length(g, CONTEXT);
    struct wk_tensor *x = wk_layer_embedding(tokens, "embed", VOCAB, WIDTH);
    wk_graph_block(g, "middle");
    x = wk_layer_linear(mixed(x), "head", VOCAB);
    wk_graph_output(g, "logits", x);
    wk_graph_loss(g, "loss", wk_op_multiply(x, x), NULL);
    CHECK(wk_graph_model(g, &model) == 0);
    float *params = calloc(model->count, sizeof(*params));
    CHECK(model_bind(model, params, NULL) == 0 && wk_model_init(model, 1) == 0);
    CHECK(decode_begin(model, 1, CONTEXT, &err) == WK_EUNSUPPORTED);
    if (!strstr(err.text, sentence))
        fprintf(stderr, "\"%s\" without \"%s\"\n", err.text, sentence);
    CHECK(strstr(err.text, sentence));
    int32_t text[4];
    CHECK(wk_generate(model, &(struct wk_generate_options){0}, 4, text) == 0);
    wk_model_free(model);
    free(params);
}

static struct wk_tensor *window(struct wk_tensor *x)
{
    return wk_op_window(x, 2);
}

static struct wk_tensor *full(struct wk_tensor *x)
{
    x = wk_layer_linear(x, "qkv", 3 * WIDTH);
    return wk_op_attention(x, &(struct wk_attention_options){.heads = 2, .full = true});
}

static struct wk_tensor *own_attention(struct wk_tensor *x)
{
    return wk_op_matmul(wk_op_matmul(x, x, false, true), x, false, false);
}

static struct wk_tensor *merged(struct wk_tensor *x)
{
    x = wk_op_reshape(x, WK_SHAPE(WK_REST, WIDTH));
    return wk_op_reshape(x, WK_SHAPE(WK_SAMPLES, WK_LENGTH, WIDTH));
}

static struct wk_tensor *over_positions(struct wk_tensor *x)
{
    x = wk_op_softmax(wk_op_transpose(x, WK_SHAPE(0, 2, 1)));
    return wk_op_transpose(x, WK_SHAPE(0, 2, 1));
}

static void refusals_name_the_operation(void)
{
    expect_refused(window, "mixing cannot decode: window in block middle: it mixes positions");
    expect_refused(full, "attention in block middle: positions see later ones");
    expect_refused(own_attention, "matmul in block middle: it mixes positions");
    expect_refused(over_positions, "softmax in block middle: the sum is over positions");
    expect_refused(merged, "reshape in block middle: it does not keep the first two dimensions");
}

int main(void)
{
    static const enum wk_dtype types[] = {WK_F32, WK_BF16, WK_F16};
    for (int t = 0; t < 3; t++) {
        for (int kind = 0; kind < MLP; kind++)
            logits_follow(kind, types[t]);
        for (int kind = 0; kind < KINDS; kind++)
            texts_follow(kind, types[t]);
    }
    printf("ok texts_follow_as_without_a_cache\n");
    for (int kind = 0; kind < KINDS; kind++)
        batches_are_their_texts(kind);
    printf("ok texts_of_a_batch_are_those_of_each_prompt\n");
    stops();
    printf("ok a_stop_token_ends_a_text\n");
    refusals_name_the_operation();
    printf("ok refusals_name_the_operation\n");
    return 0;
}
