/* GPT, Llama and MLP on the rehearsal device: each launch touches what it declares, work is ordered
 * by the queue alone, the host never reads device memory, and gradients and logits are the CPU's
 * bits. */
#include <stdlib.h>
#include <string.h>

#include "libworker/device/rehearsal/rehearsal.h"
#include "libworker/graph/graph_model.h"
#include "libworker/nn/decode.h"
#include "libworker/nn/random.h"
#include "tests/lib/check.h"

enum { SAMPLES = 2, LENGTH = 12, VOCAB = 37, COUNT = SAMPLES * LENGTH, SEEDS = 3 };
enum { GPT, LLAMA, MLP, KINDS };

static int32_t tokens[COUNT], targets[COUNT];

static struct wk_model *model_of(int kind)
{
    struct wk_model *model = NULL;
    struct wk_gpt_config gpt = {2, 2, 16, LENGTH, VOCAB};
    struct wk_llama_config llama = {.layers = 2,
                                    .heads = 4,
                                    .kv_heads = 2,
                                    .width = 16,
                                    .inner = 24,
                                    .context = LENGTH,
                                    .vocab = VOCAB,
                                    .rope_theta = 10000,
                                    .norm_epsilon = 1e-5};
    struct wk_mlp_config mlp = {2, 3, 8, 16, LENGTH, VOCAB};
    CHECK((kind == GPT     ? wk_gpt_new(&gpt, &model)
           : kind == LLAMA ? wk_llama_new(&llama, &model)
                           : wk_mlp_new(&mlp, &model)) == 0);
    return model;
}

static struct wk_batch batch_of(void)
{
    for (uint64_t i = 0; i < COUNT; i++) {
        tokens[i] = (int32_t)(random_bits(1, i) % VOCAB);
        targets[i] = i % 11 == 3 ? WK_IGNORED : (int32_t)(random_bits(2, i) % VOCAB);
    }
    return (struct wk_batch){
        .tokens = tokens, .targets = targets, .samples = SAMPLES, .length = LENGTH};
}

/* What one pass gives, and how it is computed. */
struct trial {
    int kind;
    enum wk_dtype type;
    enum wk_recompute again;
    bool drops;
    uint64_t seed;
    double loss;
    float *grads; /* [count] */
    float logits[VOCAB * SAMPLES];
};

/* Some positions for the cache, then one more. An MLP has no cache. */
static void decode(struct wk_model *model, struct trial *trial)
{
    enum { FIRST = 4 };
    struct wk_batch first = {.tokens = tokens, .samples = SAMPLES, .length = FIRST};
    struct wk_batch next = {.tokens = tokens + SAMPLES * FIRST, .samples = SAMPLES, .length = 1};
    if (trial->kind == MLP)
        return;
    CHECK(decode_begin(model, SAMPLES, LENGTH, NULL) == 0);
    CHECK(decode_pass(model, &first, 0, NULL, NULL) == 0);
    CHECK(decode_pass(model, &next, FIRST, trial->logits, NULL) == 0);
    decode_end(model);
}

static void set_up(struct wk_model *model, const struct trial *trial)
{
    CHECK(wk_model_recompute_by(model, trial->again, 0) == 0);
    if (trial->drops && trial->kind != MLP)
        CHECK(wk_model_dropout(model, 0.25, 5) == 0);
    CHECK(wk_model_label_smoothing(model, 0.1) == 0);
}

/* Two passes on the CPU. `params` are the model's initial values. */
static void on_cpu(struct trial *trial, float *params, uint16_t *low)
{
    struct wk_model *model = model_of(trial->kind);
    struct wk_batch batch = batch_of();
    trial->grads = calloc(model->count, sizeof(float));
    CHECK(model_bind(model, params, trial->grads) == 0);
    CHECK(wk_model_init(model, 3) == 0);
    if (trial->type != WK_F32)
        model_write_low(model, trial->type, low);
    CHECK(model_set_compute(model, trial->type, low, NULL) == 0);
    set_up(model, trial);
    for (int pass = 0; pass < 2; pass++) {
        CHECK(model_forward(model, &batch, &trial->loss, NULL) == 0);
        CHECK(model_backward(model, 2, NULL) == 0);
    }
    decode(model, trial);
    wk_model_free(model);
}

static void *sent(struct device *device, struct queue *queue, const void *from, size_t bytes)
{
    void *memory = NULL;
    CHECK(device_memory_new(device, bytes, &memory, NULL) == 0);
    CHECK(queue_write(queue, memory, from, bytes, NULL) == 0);
    return memory;
}

static void on_rehearsal(struct trial *trial, const float *params, const uint16_t *low)
{
    struct rehearsal_options options = {.seed = trial->seed};
    struct device *device = NULL;
    struct queue *queue = NULL;
    struct wk_model *model = model_of(trial->kind);
    struct wk_batch batch = batch_of();
    size_t bytes = model->count * sizeof(float), low_bytes = model->count * sizeof(*low);
    trial->grads = calloc(model->count, sizeof(float));
    CHECK(rehearsal_new(&options, &device, NULL) == 0);
    CHECK(queue_new(device, &queue, NULL) == 0);
    float *device_params = sent(device, queue, params, bytes);
    float *device_grads = sent(device, queue, trial->grads, bytes);
    uint16_t *device_low = sent(device, queue, low, low_bytes);
    CHECK(model_move(model, queue, NULL) == 0);
    CHECK(model_bind(model, device_params, device_grads) == 0);
    CHECK(model_set_compute(model, trial->type, device_low, NULL) == 0);
    set_up(model, trial);
    for (int pass = 0; pass < 2; pass++) {
        CHECK(model_forward(model, &batch, &trial->loss, NULL) == 0);
        CHECK(model_backward(model, 2, NULL) == 0);
    }
    decode(model, trial);
    CHECK(queue_read(queue, trial->grads, device_grads, bytes, NULL) == 0);
    wk_model_free(model);
    device_memory_free(device, device_params, bytes);
    device_memory_free(device, device_grads, bytes);
    device_memory_free(device, device_low, low_bytes);
    queue_free(queue);
    device_free(device);
}

static void compare(int kind, enum wk_dtype type, enum wk_recompute again, bool drops)
{
    struct wk_model *model = model_of(kind);
    size_t count = model->count;
    wk_model_free(model);
    float *params = calloc(count, sizeof(*params));
    uint16_t *low = calloc(count, sizeof(*low));
    struct trial cpu = {.kind = kind, .type = type, .again = again, .drops = drops};
    on_cpu(&cpu, params, low);
    for (uint64_t seed = 0; seed < SEEDS; seed++) {
        struct trial trial = cpu;
        memset(trial.logits, 0, sizeof(trial.logits));
        trial.seed = seed;
        on_rehearsal(&trial, params, low);
        CHECK(memcmp(&trial.loss, &cpu.loss, sizeof(cpu.loss)) == 0);
        CHECK(memcmp(trial.grads, cpu.grads, count * sizeof(float)) == 0);
        CHECK(memcmp(trial.logits, cpu.logits, sizeof(cpu.logits)) == 0);
        free(trial.grads);
    }
    free(cpu.grads);
    free(params);
    free(low);
}

int main(void)
{
    for (int kind = 0; kind < KINDS; kind++) {
        compare(kind, WK_F32, WK_RECOMPUTE_NONE, false);
        compare(kind, WK_F32, WK_RECOMPUTE_BLOCKS, true);
        compare(kind, WK_F32, WK_RECOMPUTE_OPERATIONS, true);
        compare(kind, WK_BF16, WK_RECOMPUTE_NONE, true);
        compare(kind, WK_F16, WK_RECOMPUTE_BLOCKS, false);
        compare(kind, WK_BF16, WK_RECOMPUTE_OPERATIONS, false);
    }
    printf("ok models_compute_the_same_on_the_rehearsal_device\n");
    return 0;
}
