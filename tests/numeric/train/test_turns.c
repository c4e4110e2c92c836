/* FSDP where the host does not read the device's memory: blocks take turns in it
 * (parallel/sharded_slots.h). On the rehearsal device a block that is used before its turn, after
 * it, or without an event since the last one is found. Losses, norms and weights are the CPU's
 * bits, and the most memory there was is what is estimated.
 *
 *     test_train_turns [CASE]
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "libworker/device/rehearsal/rehearsal.h"
#include "libworker/device/slots.h"
#include "libworker/estimate/estimate.h"
#include "libworker/parallel/sharded.h"
#include "tests/lib/check.h"
#include "tests/numeric/train/rehearsed.h"

enum { SEEDS = 2, PAGE = 4096, ROW_BYTES = 64 };

static struct rehearsed_result on_cpu, on_device;
static struct rehearsed_result *const results[] = {&on_cpu, &on_device};

/* Of the run. */
static struct expected {
    int prefetch;
    bool narrow, low_gradients, keeps;
    bool apart; /* there was more memory between passes */
    int looked;
} expected;

/* The most that there was, or what is left of it. */
static size_t peak_of(const struct pages *pages)
{
    if (!pages->slots)
        return pages->count * sizeof(float);
    return expected.apart ? slots_bytes(pages->slots) : slots_peak(pages->slots);
}

static bool is_apart(const struct pages *pages)
{
    return pages->slots && slots_apart(pages->slots);
}

static struct estimate estimated(struct wk_model *model)
{
    struct estimate e;
    struct wk_adamw_options adamw = {1e-3, 0.9, 0.95, 1e-8, 0.1};
    struct estimate_options options = {
        .strategy = STRATEGY_FSDP,
        .world = 1,
        .samples = 1,
        .compute = expected.narrow ? WK_BF16 : WK_F32,
        .low_gradients = expected.low_gradients,
        .prefetch = expected.keeps ? SHARDED_PREFETCH_MAX : expected.prefetch,
    };
    struct wk_optimizer *optimizer = NULL;
    CHECK(wk_adamw_new(&adamw, &optimizer) == 0);
    options.optimizer = optimizer;
    CHECK(estimate_training(model, &options, &e, NULL) == 0);
    wk_optimizer_free(optimizer);
    return e;
}

/* Each block may be padded to whole rows, and each slot to a page. */
static void check_peak(const char *what, size_t peak, int64_t said, int blocks)
{
    int64_t least = said, most = said + (int64_t)blocks * (PAGE + ROW_BYTES);
    if ((int64_t)peak < least || (int64_t)peak > most)
        fprintf(stderr, "%s: at most %zu bytes, estimated %lld\n", what, peak, (long long)said);
    CHECK((int64_t)peak >= least && (int64_t)peak <= most);
}

static void look(struct wk_model *model)
{
    const struct sharded *s = model->unit->strategy.memory.self;
    struct estimate e = estimated(model);
    int64_t own = (int64_t)model->count * (int64_t)sizeof(float), own_grads = own;
    size_t grads = peak_of(&s->grad_pages), low = 0;
    expected.looked++;
    CHECK(s->param_pages.slots || expected.keeps);
    CHECK(!is_apart(&s->grad_pages) && !is_apart(&s->low.grad_pages));
    CHECK(!is_apart(&s->param_pages) && !is_apart(&s->low.param_pages));
    if (s->low.grads) {
        grads += peak_of(&s->low.grad_pages) + s->low.sums_count * sizeof(float);
        own_grads /= 2;
    }
    if (s->low.params)
        low = peak_of(&s->low.param_pages);
    else
        check_peak("parameters", peak_of(&s->param_pages), e.parameters - own, s->plan.n_units);
    CHECK(!s->low.params || expected.keeps || slots_bytes(s->param_pages.slots) == 0);
    check_peak("narrow", low, e.low, s->plan.n_units);
    check_peak("gradients", grads, e.gradients - own_grads, 3 * s->plan.n_units);
}

/* CTest takes an abort for a failure, also of a program that has a mistake. */
static void found(void *self, const char *sentence)
{
    (void)self;
    fprintf(stderr, "found: %s\n", sentence);
    exit(1);
}

static bool same(const struct rehearsed_result *a, const struct rehearsed_result *b)
{
    for (int i = 0; i < REHEARSED_STEPS; i++)
        if (memcmp(&a->numbers[i].loss, &b->numbers[i].loss, sizeof(double)) ||
            memcmp(&a->numbers[i].norm, &b->numbers[i].norm, sizeof(double)))
            return false;
    return a->count == b->count && !memcmp(&a->held_out, &b->held_out, sizeof(double)) &&
           !memcmp(a->weights, b->weights, a->count * sizeof(*a->weights));
}

static void set(struct rehearsed *rehearsed, const char *name, const char *value)
{
    CHECK(rehearsed->n_settings < REHEARSED_SETTINGS_MAX);
    rehearsed->settings[rehearsed->n_settings++] = (struct wk_setting){name, value};
}

static struct rehearsed fsdp(enum rehearsed_model model, int layers, const char *prefetch)
{
    struct rehearsed rehearsed = {
        .model = model, .layers = layers, .optimizer = REHEARSED_ADAMW, .clips = true};
    set(&rehearsed, "strategy", "fsdp");
    set(&rehearsed, "fsdp.prefetch", prefetch);
    expected = (struct expected){.prefetch = prefetch[0] - '0'};
    return rehearsed;
}

static void narrow(struct rehearsed *rehearsed, bool gradients)
{
    set(rehearsed, "mixed_precision", "bf16");
    set(rehearsed, "low_gradients", gradients ? "true" : "false");
    expected.narrow = true;
    expected.low_gradients = gradients;
}

static void rehearse(struct rehearsed rehearsed)
{
    rehearsed_run(&rehearsed, results[0]);
    rehearsed.passed = look;
    for (uint64_t seed = 0; seed < SEEDS; seed++) {
        struct rehearsal_options options = {.seed = seed, .found = found};
        CHECK(rehearsal_new(&options, &rehearsed.device, NULL) == 0);
        expected.looked = 0;
        rehearsed_run(&rehearsed, results[1]);
        device_free(rehearsed.device);
        CHECK(expected.looked >= REHEARSED_STEPS && same(results[0], results[1]));
    }
}

static const char *const prefetches[] = {"0", "1", "4"};

static void blocks_take_turns(void)
{
    for (int p = 0; p < 3; p++)
        for (int layers = 1; layers < 8; layers += 3)
            for (int model = REHEARSED_GPT; model <= REHEARSED_LLAMA; model++)
                rehearse(fsdp((enum rehearsed_model)model, layers, prefetches[p]));
}

static void so_they_do_in_narrow_types(void)
{
    for (int p = 0; p < 3; p++)
        for (int gradients = 0; gradients < 2; gradients++) {
            struct rehearsed rehearsed = fsdp(REHEARSED_GPT, 5, prefetches[p]);
            narrow(&rehearsed, gradients);
            rehearse(rehearsed);
            set(&rehearsed, "gradient_accumulation_steps", "2");
            rehearse(rehearsed);
        }
}

/* Evaluations leave blocks that the next pass does not begin with; what is gathered for reading
 * has memory until the next pass. */
static void other_passes_are_between(void)
{
    for (int p = 0; p < 3; p++)
        for (int type = 0; type < 3; type++) {
            struct rehearsed rehearsed = fsdp(REHEARSED_GPT, 5, prefetches[p]);
            rehearsed.between = true;
            if (type)
                narrow(&rehearsed, type == 2);
            expected.apart = true;
            rehearse(rehearsed);
        }
}

static void gathered_blocks_may_stay(void)
{
    for (int type = 0; type < 2; type++) {
        struct rehearsed rehearsed = fsdp(REHEARSED_LLAMA, 4, "1");
        set(&rehearsed, "fsdp.reshard_after_forward", "false");
        expected.keeps = true;
        if (type)
            narrow(&rehearsed, false);
        rehearse(rehearsed);
    }
}

static void masters_may_be_on_the_host(void)
{
    for (int p = 0; p < 3; p++) {
        struct rehearsed rehearsed = fsdp(REHEARSED_GPT, 4, prefetches[p]);
        narrow(&rehearsed, p == 1);
        set(&rehearsed, "offload.masters", "host");
        rehearsed.between = p == 2;
        rehearsed_run(&rehearsed, results[0]);
        for (uint64_t seed = 0; seed < SEEDS; seed++) {
            struct rehearsal_options options = {.seed = seed, .found = found};
            CHECK(rehearsal_new(&options, &rehearsed.device, NULL) == 0);
            rehearsed_run(&rehearsed, results[1]);
            device_free(rehearsed.device);
            CHECK(same(results[0], results[1]));
        }
    }
}

static void blocks_may_rest(void)
{
    struct rehearsed rehearsed = fsdp(REHEARSED_GPT, 4, "1");
    rehearsed.resting = "*.weight";
    rehearse(rehearsed);
}

/* However little memory there is, it is an error with a sentence. */
static void a_full_device_is_an_error(void)
{
    struct rehearsed rehearsed = fsdp(REHEARSED_GPT, 4, "1");
    for (size_t bytes = 1 << 12; bytes < 1 << 18; bytes += 1 << 14) {
        struct rehearsal_options options = {.seed = bytes, .memory_bytes = bytes, .found = found};
        CHECK(rehearsal_new(&options, &rehearsed.device, NULL) == 0);
        CHECK(rehearsed_refusal(&rehearsed, "memory") == WK_ENOMEM);
        device_free(rehearsed.device);
    }
}

int main(int argc, char **argv)
{
    static const struct check_case cases[] = {
        CHECK_CASE(blocks_take_turns),          CHECK_CASE(so_they_do_in_narrow_types),
        CHECK_CASE(other_passes_are_between),   CHECK_CASE(gathered_blocks_may_stay),
        CHECK_CASE(masters_may_be_on_the_host), CHECK_CASE(blocks_may_rest),
        CHECK_CASE(a_full_device_is_an_error),  {0}};
    return check_all(cases, argc, argv);
}
