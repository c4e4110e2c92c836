/* Updates that are graphs (optim/noted.h), of every optimizer over the fake runtime, beside the
 * same ones without graphs:
 *
 *     cuda_update [CASE]
 *
 * The rate changes with each step, one step does not apply, and the optimizer is bound twice, to
 * other memory and other tensors. The host waits at the end only. Parameters, copies and state have
 * the same bits, in any order of the streams. cuda_update_… are this program with a mistake in what
 * it tests. */
#include <math.h>
#include <string.h>

#include <worker/error.h>

#include "libworker/device/remark.h"
#include "libworker/optim/optimizer.h"
#include "libworker/optim/verdict.h"
#include "tests/cuda/fake/gpu.h"
#include "tests/lib/check.h"
#include "tests/lib/params.h"

enum {
    PARAMS = 6,
    COUNT = 9 * 37 + 60 * 20 + 16 * 16 + 33 + 8 * 8 + 33,
    STEPS = 5,
    SKIPPED = 2,
    BINDINGS = 2,
    SEEDS = 3,
    KINDS = 7
};

/* What is after the vector is off 16 bytes. */
static const struct params_tensor tensors[PARAMS] = {
    {"wide", 2, {9, 37}}, {"tall", 2, {60, 20}}, {"square", 2, {16, 16}},
    {"vector", 1, {33}},  {"apart", 2, {8, 8}},  {"frozen", 2, {3, 11}}};

enum copying { COPY_BY_CHANCE, COPY, NO_COPY, COPYINGS };

struct outcome {
    float params[BINDINGS][COUNT], state[BINDINGS][OPTIMIZER_STATES_MAX][COUNT];
    uint16_t low[BINDINGS][COUNT];
    struct replay_counts graphs;
    size_t bytes_after; /* of records, when the optimizer is freed */
};

static struct outcome without, with;
static long scarce_at; /* as fake_options' */

/* Another queue of the device, for a mistake. */
extern struct queue *beside;
struct queue *beside;

struct training {
    struct device *device;
    struct queue *queue;
    struct wk_optimizer *optimizer;
    struct verdict verdict;
    struct param params[PARAMS];
    float *values, *grads, *all; /* `all`: [STEPS][COUNT] gradients */
    uint16_t *low;
};

static struct wk_optimizer *optimizer_of(int kind)
{
    struct wk_adamw_options adam = {3e-3, 0.9, 0.95, 1e-8, 0.1};
    struct wk_sgd_options sgd = {1e-2, kind ? 0.9 : 0, kind == 1, 0.1};
    struct wk_lion_options lion = {1e-3, 0.9, 0.99, 0.1};
    struct wk_adafactor_options adafactor = {1e-2, 0.8, 1e-30, 1e-3, 1, true, 0.1};
    struct wk_muon_options muon = {3e-3, 0.95, true, 0.1, adam};
    const struct wk_group apart = {
        .pattern = "apart", .rate_scale = 0.5, .weight_decay = 0.2, .elementwise = true};
    const struct wk_group frozen = {.pattern = "frozen", .weight_decay = -1};
    struct wk_optimizer *o = NULL;
    int rc = kind < 2    ? wk_sgd_new(&sgd, &o)
             : kind == 2 ? wk_adam_new(&adam, &o)
             : kind == 3 ? wk_adamw_new(&adam, &o)
             : kind == 4 ? wk_lion_new(&lion, &o)
             : kind == 5 ? wk_adafactor_new(&adafactor, &o)
                         : wk_muon_new(&muon, &o);
    CHECK(rc == 0);
    CHECK(wk_optimizer_group(o, &apart) == 0 && wk_optimizer_group(o, &frozen) == 0);
    return o;
}

static void *memory_new(struct training *t, size_t bytes)
{
    void *memory = NULL;
    CHECK(device_zeros_new(t->queue, bytes, &memory, NULL) == 0);
    return memory;
}

static void arrays_free(struct training *t)
{
    device_memory_free(t->device, t->values, COUNT * sizeof(float));
    device_memory_free(t->device, t->grads, COUNT * sizeof(float));
    device_memory_free(t->device, t->all, STEPS * COUNT * sizeof(float));
    device_memory_free(t->device, t->low, COUNT * sizeof(uint16_t));
}

/* Bind to new arrays: the old ones are not in use after that. The second time without the last
 * tensor. */
static void bind(struct training *t, enum copying copying, int binding)
{
    static float numbers[STEPS * COUNT];
    const struct param *last = &t->params[PARAMS - 1 - binding];
    CHECK(optimizer_bind(t->optimizer, t->params, PARAMS - binding, 0, last->offset + last->count,
                         NULL) == 0);
    arrays_free(t);
    t->values = memory_new(t, COUNT * sizeof(float));
    t->grads = memory_new(t, COUNT * sizeof(float));
    t->all = memory_new(t, STEPS * COUNT * sizeof(float));
    t->low = memory_new(t, COUNT * sizeof(uint16_t));
    const struct optimizer_copy copy = {copying == NO_COPY ? NULL : t->low, WK_BF16,
                                        copying == COPY_BY_CHANCE, 7};
    CHECK(optimizer_set_copy(t->optimizer, &copy, NULL) == 0);
    for (size_t i = 0; i < (size_t)STEPS * COUNT; i++)
        numbers[i] = params_number((uint64_t)(2 * binding + 2), i);
    CHECK(queue_write(t->queue, t->all, numbers, sizeof(numbers), NULL) == 0);
    for (size_t i = 0; i < COUNT; i++)
        numbers[i] = params_number((uint64_t)(2 * binding + 1), i);
    CHECK(queue_write(t->queue, t->values, numbers, COUNT * sizeof(float), NULL) == 0);
}

/* Enqueued only. */
static void step_once(struct training *t, int step)
{
    const struct optimizer_gradients g = {.grads = t->grads, .verdict = t->verdict.at};
    t->optimizer->factor = 1.0 / (1 + step);
    queue_copy(t->queue, t->grads, t->all + (size_t)step * COUNT, COUNT * sizeof(float));
    verdict_open(&t->verdict, 0.5 / (1 + step), VERDICT_FINITE);
    verdict_judge(&t->verdict, step == SKIPPED ? (double)NAN : 1);
    CHECK(optimizer_enqueue(t->optimizer, t->values, &g, NULL) == 0);
    if (step == SKIPPED)
        optimizer_take_back(t->optimizer);
}

static void keep_result(struct training *t, int binding, struct outcome *ret)
{
    CHECK(queue_read(t->queue, ret->params[binding], t->values, COUNT * sizeof(float), NULL) == 0);
    CHECK(queue_read(t->queue, ret->low[binding], t->low, COUNT * sizeof(uint16_t), NULL) == 0);
    for (int s = 0; s < t->optimizer->ops->n_states; s++) {
        for (int p = 0; p < PARAMS; p++) {
            struct optimizer_view view = optimizer_state_view(t->optimizer, s, &t->params[p]);
            float *to = ret->state[binding][s] + t->params[p].offset;
            CHECK(view.count <= t->params[p].count);
            CHECK(!view.count ||
                  queue_read(t->queue, to, view.data, view.count * sizeof(float), NULL) == 0);
        }
    }
}

static void training_begin(struct training *t, int kind, enum device_graphs graphs, uint64_t seed)
{
    struct fake_options options = gpu_options(seed);
    options.scarce_at = scarce_at;
    *t = (struct training){.device = gpu_new(&options), .optimizer = optimizer_of(kind)};
    device_choose_graphs(t->device, graphs);
    CHECK(queue_new(t->device, &t->queue, NULL) == 0);
    CHECK(queue_new(t->device, &beside, NULL) == 0);
    CHECK(verdict_init(&t->verdict, t->queue, NULL) == 0);
    CHECK(params_describe(tensors, PARAMS, t->params) == COUNT);
    optimizer_move(t->optimizer, t->queue);
}

static void training_end(struct training *t, struct outcome *ret)
{
    struct replay_counts after;
    replay_counted(t->queue, &ret->graphs);
    wk_optimizer_free(t->optimizer);
    replay_counted(t->queue, &after);
    ret->bytes_after = after.bytes;
    verdict_fini(&t->verdict);
    arrays_free(t);
    queue_free(t->queue);
    queue_free(beside);
    device_free(t->device);
}

static void check_same(int binding)
{
    CHECK(!memcmp(without.params[binding], with.params[binding], sizeof(with.params[0])));
    CHECK(!memcmp(without.state[binding], with.state[binding], sizeof(with.state[0])));
    CHECK(!memcmp(without.low[binding], with.low[binding], sizeof(with.low[0])));
}

/* Seed 0 has no graphs. */
static void train(int kind, enum copying copying, uint64_t seed, struct outcome *ret)
{
    struct training t;
    memset(ret, 0, sizeof(*ret));
    training_begin(&t, kind, seed ? DEVICE_GRAPHS_ON : DEVICE_GRAPHS_OFF, seed);
    for (int binding = 0; binding < BINDINGS; binding++) {
        bind(&t, copying, binding);
        for (int step = 0; step < STEPS; step++)
            step_once(&t, step);
        keep_result(&t, binding, ret);
        if (seed)
            check_same(binding);
    }
    training_end(&t, ret);
}

/* A binding's first step is recorded, and all others are its graph: also the one that does not
 * apply. */
static void check_counts(const struct replay_counts *graphs, bool whole_tensors)
{
    CHECK(!graphs->refused && !graphs->gives_up);
    CHECK(graphs->recorded == (whole_tensors ? BINDINGS : 0));
    CHECK(graphs->replayed == (whole_tensors ? BINDINGS * (STEPS - 1) : 0));
    CHECK(graphs->works == (whole_tensors ? (STEPS - 1) * (PARAMS + PARAMS - 1) : 0));
}

static void compare(int kind)
{
    for (int copying = 0; copying < COPYINGS; copying++) {
        train(kind, (enum copying)copying, 0, &without);
        CHECK(without.graphs.recorded == 0);
        CHECK(memcmp(without.params[0], without.params[1], sizeof(without.params[0])) != 0);
        for (uint64_t seed = 1; seed <= SEEDS; seed++) {
            train(kind, (enum copying)copying, seed, &with);
            check_counts(&with.graphs, kind >= 5);
            CHECK(with.bytes_after == 0);
        }
    }
}

static void optimizers_on_whole_tensors_repeat(void)
{
    for (int kind = 5; kind < KINDS; kind++)
        compare(kind);
}

static void the_others_are_as_before(void)
{
    for (int kind = 0; kind < 5; kind++)
        compare(kind);
}

/* The scale of the host is an argument, so nothing repeats. */
static void a_step_without_a_verdict_is_no_graph(void)
{
    for (int kind = 5; kind < KINDS; kind++) {
        for (int graphs = 0; graphs < 2; graphs++) {
            struct outcome *ret = graphs ? &with : &without;
            struct training t;
            memset(ret, 0, sizeof(*ret));
            training_begin(&t, kind, graphs ? DEVICE_GRAPHS_ON : DEVICE_GRAPHS_OFF, 3);
            bind(&t, NO_COPY, 0);
            for (int step = 0; step < STEPS; step++) {
                t.optimizer->factor = 1.0 / (1 + step);
                CHECK(optimizer_step(t.optimizer, t.values, t.all + (size_t)step * COUNT,
                                     0.5f / (float)(1 + step), NULL) == 0);
            }
            keep_result(&t, 0, ret);
            training_end(&t, ret);
            CHECK(ret->graphs.recorded == 0);
        }
        check_same(0);
    }
}

static void the_device_is_told_why(void)
{
    static const char *const told[] = {
        "graphs of the update: no, sgd has few launches, with rates as arguments",
        "graphs of the update: yes, a kernel moves "};
    for (int i = 0; i < 2; i++) {
        struct training t;
        training_begin(&t, i ? 6 : 0, DEVICE_GRAPHS_AUTO, 1);
        bind(&t, NO_COPY, 0);
        step_once(&t, 0);
        step_once(&t, 1);
        const char *said = device_remark_at(t.device, 0);
        CHECK(said && !strncmp(said, told[i], strlen(told[i])));
        CHECK(!device_remark_at(t.device, 1));
        CHECK(queue_finish(t.queue, NULL) == 0);
        training_end(&t, &with);
        CHECK(with.graphs.replayed == i);
    }
}

static void large_kernels_do_not_repeat(void)
{
    struct wk_optimizer *o = optimizer_of(6);
    char text[NOTED_REASON_BYTES];
    noted_reason(o->ops, DEVICE_GRAPHS_AUTO, REPLAY_BYTES_EACH, text);
    CHECK(!strcmp(text, "graphs of the update: no, a kernel moves 16 MiB on average, not less "
                        "than 16 MiB"));
    noted_reason(o->ops, DEVICE_GRAPHS_AUTO, REPLAY_BYTES_EACH - 1.0, text);
    CHECK(!strncmp(text, "graphs of the update: yes, ", 27));
    noted_reason(o->ops, DEVICE_GRAPHS_ON, REPLAY_BYTES_EACH, text);
    CHECK(!strcmp(text, "graphs of the update: yes, compile is on"));
    noted_reason(o->ops, DEVICE_GRAPHS_OFF, 0, text);
    CHECK(!strcmp(text, "graphs of the update: no, compile is off"));
    wk_optimizer_free(o);
}

/* Each allocation of the first step fails once: the next one is the first then, with the bits of
 * a training where none failed. Allocations are counted from the beginning. */
static void a_step_without_memory_changes_nothing(void)
{
    struct training t;
    training_begin(&t, 5, DEVICE_GRAPHS_ON, 0);
    bind(&t, NO_COPY, 0);
    long before = fake_counted().allocations;
    for (int step = 0; step < STEPS; step++)
        step_once(&t, step);
    keep_result(&t, 0, &without);
    training_end(&t, &without);
    for (long at = before + 1; at <= before + 2; at++) {
        struct error err = {0};
        scarce_at = at;
        training_begin(&t, 5, DEVICE_GRAPHS_ON, 0);
        scarce_at = 0;
        bind(&t, NO_COPY, 0);
        const struct optimizer_gradients g = {.grads = t.grads, .verdict = t.verdict.at};
        CHECK(optimizer_enqueue(t.optimizer, t.values, &g, &err) == WK_ENOMEM);
        CHECK(t.optimizer->steps == 0);
        for (int step = 0; step < STEPS; step++)
            step_once(&t, step);
        keep_result(&t, 0, &with);
        training_end(&t, &with);
        check_same(0);
        CHECK(with.graphs.replayed == STEPS - 1);
    }
}

int main(int argc, char **argv)
{
    static const struct check_case cases[] = {
        CHECK_CASE(optimizers_on_whole_tensors_repeat),
        CHECK_CASE(the_others_are_as_before),
        CHECK_CASE(a_step_without_a_verdict_is_no_graph),
        CHECK_CASE(the_device_is_told_why),
        CHECK_CASE(large_kernels_do_not_repeat),
        CHECK_CASE(a_step_without_memory_changes_nothing),
        {NULL, NULL},
    };
    return check_all(cases, argc, argv);
}
