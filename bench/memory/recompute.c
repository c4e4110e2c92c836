/* Memory and time of a training pass by what is computed again (worker/nn.h, wk_recompute): the GPT
 * of TARGETS, in float and in bf16, on one thread.
 *
 * Memory is the region of the plan. Time is that of a forward and a backward pass, the median of
 * some rounds in which the policies take turns. Prints two JSON lines per policy: its memory and
 * its time, beside those with nothing computed again.
 */
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>

#include "bench/alone.h"
#include "libworker/graph/pass.h"
#include "libworker/nn/random.h"

enum { LAYERS = 6, HEADS = 6, WIDTH = 384, CONTEXT = 256, VOCAB = 128, SAMPLES = 4 };
enum { TOKENS = SAMPLES * CONTEXT, ROUNDS = 5 };

struct policy {
    const char *name;
    enum wk_recompute recompute;
    double part; /* of the memory with nothing computed again, of WK_RECOMPUTE_WITHIN */
};

static const struct policy policies[] = {
    {"nothing", WK_RECOMPUTE_NONE, 0},        {"operations", WK_RECOMPUTE_OPERATIONS, 0},
    {"within 80%", WK_RECOMPUTE_WITHIN, 0.8}, {"within 60%", WK_RECOMPUTE_WITHIN, 0.6},
    {"within 50%", WK_RECOMPUTE_WITHIN, 0.5}, {"blocks", WK_RECOMPUTE_BLOCKS, 0},
};
enum { POLICIES = sizeof(policies) / sizeof(policies[0]) };

struct figure {
    size_t bytes; /* 0: it cannot be */
    double again_flop, ms[ROUNDS];
};

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static struct wk_model *model_new(bool bf16)
{
    static const struct wk_gpt_config gpt = {LAYERS, HEADS, WIDTH, CONTEXT, VOCAB};
    struct wk_model *model;
    if (wk_gpt_new(&gpt, &model))
        return NULL;
    float *params = calloc(model->count, sizeof(*params));
    float *grads = calloc(model->count, sizeof(*grads));
    uint16_t *low = calloc(model->count, sizeof(*low));
    bool done =
        params && grads && low && !model_bind(model, params, grads) && !wk_model_init(model, 1);
    if (done && bf16)
        model_write_low(model, WK_BF16, low);
    if (done && !model_set_compute(model, bf16 ? WK_BF16 : WK_F32, low, NULL))
        return model; /* its arrays last as long as the program */
    return NULL;
}

static bool set_policy(struct wk_model *model, const struct policy *policy, size_t all,
                       struct figure *ret)
{
    struct sizes sizes = {SAMPLES, CONTEXT};
    struct plan *plan;
    int64_t bytes = (int64_t)(policy->part * (double)all);
    if (wk_model_recompute_by(model, policy->recompute, bytes) ||
        pass_plan(graph_model_of(model), &(struct trace_options){.trains = true}, &sizes, &plan,
                  NULL))
        return false;
    ret->bytes = plan->region_bytes;
    ret->again_flop = plan->again_flop;
    return true;
}

static bool pass(struct wk_model *model, const int32_t *tokens, double *ret_ms)
{
    double loss, start_ms = 1e3 * alone_s();
    struct wk_batch batch = {
        .tokens = tokens, .targets = tokens + 1, .samples = SAMPLES, .length = CONTEXT};
    bool done = !model_forward(model, &batch, &loss, NULL) && !model_backward(model, 1, NULL);
    *ret_ms = 1e3 * alone_s() - start_ms;
    return done;
}

static void print(const char *type, const struct policy *policy, struct figure *figure,
                  struct figure *nothing)
{
    enum { MIB = 1 << 20 };
    double mib = (double)figure->bytes / MIB, all = (double)nothing->bytes / MIB;
    printf("{\"bench\":\"memory\",\"metric\":\"recompute %s %s\",\"ours\":%.1f,\"peer\":%.1f,"
           "\"peer_name\":\"nothing again\",\"ratio\":%.3f,\"unit\":\"MiB\"}\n",
           policy->name, type, mib, all, mib / all);
    printf("{\"bench\":\"memory\",\"metric\":\"recompute %s %s\",\"ours\":%.1f,\"peer\":%.1f,"
           "\"peer_name\":\"nothing again\",\"ratio\":%.3f,\"unit\":\"ms\"}\n",
           policy->name, type, figure->ms[ROUNDS / 2], nothing->ms[ROUNDS / 2],
           figure->ms[ROUNDS / 2] / nothing->ms[ROUNDS / 2]);
}

static bool report(bool bf16, const int32_t *tokens)
{
    struct figure figures[POLICIES] = {0};
    struct wk_model *model = model_new(bf16);
    double unused;
    if (!model || !pass(model, tokens, &unused))
        return false;
    for (int round = 0; round < ROUNDS; round++) {
        for (int i = 0; i < POLICIES; i++) {
            if (set_policy(model, &policies[i], figures[0].bytes, &figures[i]) &&
                !pass(model, tokens, &figures[i].ms[round]))
                return false;
        }
    }
    for (int i = 0; i < POLICIES; i++)
        qsort(figures[i].ms, ROUNDS, sizeof(double), by_value);
    for (int i = 0; i < POLICIES; i++) {
        if (figures[i].bytes)
            print(bf16 ? "bf16" : "f32", &policies[i], &figures[i], &figures[0]);
    }
    return true;
}

int main(void)
{
    int32_t tokens[TOKENS + 1];
    for (int i = 0; i <= TOKENS; i++)
        tokens[i] = (int32_t)(random_bits(7, (uint64_t)i) % VOCAB);
    if (report(false, tokens) && report(true, tokens))
        return 0;
    fprintf(stderr, "bench_memory_recompute: no memory\n");
    return 1;
}
