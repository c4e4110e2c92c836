/* GPT, Llama and MLP on the rehearsal device: each launch touches what it declares, work is ordered
 * by queues and events alone, the host never reads device memory, and gradients and logits are the
 * CPU's bits. So they are where values wait in the host's memory for the backward pass. Mistakes
 * that are planted in those copies are found. */
#include <stdlib.h>
#include <string.h>

#include "libworker/device/rehearsal/rehearsal.h"
#include "libworker/graph/graph_model.h"
#include "libworker/nn/decode.h"
#include "libworker/nn/random.h"
#include "tests/lib/check.h"

enum { SAMPLES = 12, LENGTH = 12, VOCAB = 37, COUNT = SAMPLES * LENGTH, SEEDS = 3 };
enum { GPT, LLAMA, MLP, KINDS };

/* In the copies of values that wait in the host's memory. */
enum mistake {
    NONE,
    FETCHED_AT_ONCE,    /* while they are computed */
    SPACE_USED_AT_ONCE, /* while they are on their way out */
    SENT_AT_ONCE,       /* to space that is still in use */
    READ_AT_ONCE,       /* while they are on their way back */
    NOT_SETTLED,        /* a pass begins while copies of one that ended early are on their way */
    OTHER_PLACE,        /* all go to the first place on the host */
    OTHER_WAY,          /* what is on the host overwrites what is to be kept */
    MISTAKES,
};

static enum mistake planted;
static int findings, left_out; /* queue_wait leaves out this many */

static void found(void *self, const char *sentence)
{
    (void)self;
    findings += planted >= OTHER_PLACE || strstr(sentence, "an event is missing") ? 1 : 0;
    if (!planted)
        fprintf(stderr, "%s\n", sentence);
}

void __real_queue_wait(struct queue *queue, struct event event);
void __wrap_queue_wait(struct queue *queue, struct event event);
void __wrap_queue_wait(struct queue *queue, struct event event)
{
    if (left_out)
        left_out--;
    else
        __real_queue_wait(queue, event);
}

void __real_host_copies_run(struct host_copies *copies, struct queue *queue,
                            const struct host_copy *copy);
void __wrap_host_copies_run(struct host_copies *copies, struct queue *queue,
                            const struct host_copy *copy);
void __wrap_host_copies_run(struct host_copies *copies, struct queue *queue,
                            const struct host_copy *copy)
{
    struct host_copy other = *copy;
    left_out = (planted == FETCHED_AT_ONCE && copy->kind == LAUNCH_OUT) ||
               (planted == SPACE_USED_AT_ONCE && copy->kind == LAUNCH_OUT_DONE) ||
               (planted == SENT_AT_ONCE && copy->kind == LAUNCH_BACK) ||
               (planted == READ_AT_ONCE && copy->kind == LAUNCH_BACK_DONE);
    if (planted == OTHER_PLACE && copy->kind == LAUNCH_OUT)
        other.to = copies->pinned;
    if (planted == OTHER_WAY && copy->kind == LAUNCH_OUT)
        other = (struct host_copy){LAUNCH_BACK, copy->turn, (void *)(uintptr_t)copy->from, copy->to,
                                   copy->bytes};
    __real_host_copies_run(copies, queue, &other);
}

void __real_host_copies_settle(const struct host_copies *copies, struct queue *queue);
void __wrap_host_copies_settle(const struct host_copies *copies, struct queue *queue);
void __wrap_host_copies_settle(const struct host_copies *copies, struct queue *queue)
{
    if (planted != NOT_SETTLED)
        __real_host_copies_settle(copies, queue);
}

static int32_t tokens[COUNT], targets[COUNT];

static struct wk_model *model_of(int kind)
{
    struct wk_model *model = NULL;
    struct wk_gpt_config gpt = {4, 2, 16, LENGTH, VOCAB};
    struct wk_llama_config llama = {.layers = 4,
                                    .heads = 4,
                                    .kv_heads = 2,
                                    .width = 16,
                                    .inner = 24,
                                    .context = LENGTH,
                                    .vocab = VOCAB,
                                    .rope_theta = 10000,
                                    .norm_epsilon = 1e-5};
    struct wk_mlp_config mlp = {4, 3, 8, 16, LENGTH, VOCAB};
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
    bool offloads; /* on the rehearsal device; an earlier pass has ended early there */
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

/* Both passes of a plan, each as far as it has begun a copy. */
static void end_early(struct wk_model *model)
{
    const struct graph_model *m = graph_model_of(model);
    struct wk_batch batch = batch_of();
    double loss;
    CHECK(model_forward(model, &batch, &loss, NULL) == 0);
    const struct plan *plan = m->waiting;
    CHECK(plan->n_offloaded > LAUNCH_TURNS && plan->host_bytes > 0);
    int out = 0, back = plan->n_forward;
    while (plan->launches[out].kind != LAUNCH_OUT)
        out++;
    while (plan->launches[back].kind != LAUNCH_BACK)
        back++;
    CHECK(run_launches(&m->run, plan, plan->n_forward, back + 1, NULL) == 0);
    CHECK(model_forward(model, &batch, &loss, NULL) == 0);
    CHECK(run_launches(&m->run, plan, 0, out + 1, NULL) == 0);
}

static void on_rehearsal(struct trial *trial, const float *params, const uint16_t *low)
{
    struct rehearsal_options options = {.seed = trial->seed, .found = found};
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
    model->offloads = trial->offloads;
    if (trial->offloads) {
        end_early(model);
        queue_fill(queue, device_grads, 0, bytes);
    }
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

static bool same(const struct trial *a, const struct trial *b, size_t count)
{
    return memcmp(&a->loss, &b->loss, sizeof(a->loss)) == 0 &&
           memcmp(a->grads, b->grads, count * sizeof(float)) == 0 &&
           memcmp(a->logits, b->logits, sizeof(a->logits)) == 0;
}

/* With each seed. With a mistake: there is a finding, or there are other bits. */
static void compare(struct trial on_device)
{
    struct wk_model *model = model_of(on_device.kind);
    size_t count = model->count;
    wk_model_free(model);
    float *params = calloc(count, sizeof(*params));
    uint16_t *low = calloc(count, sizeof(*low));
    struct trial cpu = on_device;
    on_cpu(&cpu, params, low);
    for (uint64_t seed = 0; seed < SEEDS; seed++) {
        struct trial trial = on_device;
        trial.seed = seed;
        findings = 0;
        on_rehearsal(&trial, params, low);
        bool right = !findings && same(&trial, &cpu, count);
        if (right == (planted != NONE))
            fprintf(stderr, "model %d, type %d, seed %d, mistake %d: %d findings\n", trial.kind,
                    (int)trial.type, (int)seed, (int)planted, findings);
        CHECK(right == (planted == NONE));
        CHECK(planted == NONE || planted >= OTHER_PLACE || findings);
        free(trial.grads);
    }
    free(cpu.grads);
    free(params);
    free(low);
}

static void models_compute_the_same_bits(void)
{
    for (int kind = 0; kind < KINDS; kind++) {
        for (int offloads = 0; offloads < 2; offloads++) {
            struct trial t = {.kind = kind, .offloads = offloads};
            t.type = WK_F32;
            compare(t);
            t.drops = true;
            t.again = WK_RECOMPUTE_BLOCKS;
            compare(t);
            t.again = WK_RECOMPUTE_OPERATIONS;
            compare(t);
            t.type = WK_BF16;
            t.again = WK_RECOMPUTE_NONE;
            compare(t);
            t.drops = false;
            t.again = WK_RECOMPUTE_OPERATIONS;
            compare(t);
            t.type = WK_F16;
            t.again = WK_RECOMPUTE_BLOCKS;
            compare(t);
        }
    }
}

static void mistakes_in_copies_are_found(void)
{
    for (int kind = 0; kind < KINDS; kind++)
        for (enum mistake mistake = NONE + 1; mistake < MISTAKES; mistake++) {
            planted = mistake;
            compare((struct trial){.kind = kind, .type = WK_F32, .offloads = true});
        }
    planted = NONE;
}

int main(int argc, char **argv)
{
    static const struct check_case cases[] = {
        CHECK_CASE(models_compute_the_same_bits),
        CHECK_CASE(mistakes_in_copies_are_found),
        {0},
    };
    return check_all(cases, argc, argv);
}
