/* Bytes of training state on each rank, counted in pages that are really in memory, against the
 * formulas: between steps, and at the most during one (at every gradient and at every block).
 */
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "libworker/estimate/estimate.h"
#include "libworker/parallel/ddp.h"
#include "libworker/parallel/sharded.h"
#include "tests/lib/check.h"
#include "tests/numeric/train/fake_session.h"
#include "tests/numeric/train/toy.h"

enum { RANKS = 4, LAYERS = 48, WIDTH = 64, LENGTH = 16, STEPS = 2, LOOK_EVERY = 5 };
enum { BUCKET_BYTES = (1 << 20) / 10 };

struct kind {
    const char *strategy, *precision, *low_gradients;
    double whole, cut; /* bytes per parameter: whole + cut / RANKS */
};

/* Adam: 8 bytes of state. The last three are what mixed precision is said to cost: parameters and
 * gradients in 2 bytes, the shard 12 with its master (Rajbhandari et al. 2020, section 3.1).
 */
static const struct kind kinds[] = {
    {"ddp", "no", "false", 16, 0},     {"zero1", "no", "false", 8, 12},
    {"zero2", "no", "false", 4, 16},   {"fsdp", "no", "false", 0, 16},
    {"ddp", "bf16", "false", 18, 0},   {"zero1", "bf16", "false", 6, 12},
    {"zero2", "bf16", "false", 2, 16}, {"fsdp", "bf16", "false", 0, 16},
    {"zero1", "bf16", "true", 4, 12},  {"zero2", "bf16", "true", 2, 14},
    {"fsdp", "bf16", "true", 0, 14},
};

struct rank {
    const struct kind *kind;
    struct session *session;
    struct wk_context *ctx;
    size_t rest, most, count;
    int64_t estimated; /* of the same kind of memory */
    int status;
    int chances; /* to look, so far; its number at the start */
};

/* Everything a rank does is done on its thread, which looks at its memory on the way. */
static _Thread_local struct rank *looking;

static size_t resident(const struct pages *pages)
{
    return pages->data ? pages_resident(pages, 0, pages->count) : 0;
}

static size_t state_bytes(struct wk_context *ctx)
{
    struct unit *unit = units_main(ctx);
    struct strategy *st = &unit->strategy;
    const struct wk_optimizer *optimizer = unit->optimizer;
    size_t bytes = (size_t)optimizer->ops->n_states * optimizer->count * sizeof(float);
    if (st->ops == &ddp_ops) {
        const struct ddp *ddp = st->memory.self;
        return bytes + unit->model->count * (ddp->low ? sizeof(uint16_t) : 0) +
               2 * unit->model->count * sizeof(float);
    }
    const struct sharded *s = st->memory.self;
    return bytes + resident(&s->param_pages) + resident(&s->grad_pages) +
           resident(&s->own_param_pages) + resident(&s->own_grad_pages) +
           resident(&s->low.param_pages) + resident(&s->low.grad_pages) +
           resident(&s->low.own_grad_pages);
}

/* Looking is slow: ranks take turns, each at the moments that the others leave out. */
static void look(void)
{
    if (!looking || looking->chances++ % RANKS)
        return;
    size_t bytes = state_bytes(looking->ctx);
    if (bytes > looking->most)
        looking->most = bytes;
}

void __real_model_announce(struct wk_model *model, int index);
void __wrap_model_announce(struct wk_model *model, int index);
void __wrap_model_announce(struct wk_model *model, int index)
{
    __real_model_announce(model, index);
    if (index % LOOK_EVERY == 0) /* another parameter in each block */
        look();
}

int __real_model_enter(struct wk_model *model, int block, enum model_pass pass, struct error *err);
int __wrap_model_enter(struct wk_model *model, int block, enum model_pass pass, struct error *err);
int __wrap_model_enter(struct wk_model *model, int block, enum model_pass pass, struct error *err)
{
    int rc = __real_model_enter(model, block, pass, err);
    look();
    return rc;
}

static const char *nothing(void *arg, const char *name)
{
    (void)arg;
    (void)name;
    return NULL;
}

static void open_context(struct rank *rank)
{
    struct environment environment = {nothing, NULL};
    struct context_seams seams = {
        .environment = &environment, .session = rank->session, .quiet = true};
    const struct wk_setting settings[] = {
        {"strategy", rank->kind->strategy},
        {"mixed_precision", rank->kind->precision},
        {"low_gradients", rank->kind->low_gradients},
        {"bucket_mib", "0.1"},
        {"first_bucket_mib", "0.05"},
    };
    struct wk_options options = {.settings = settings, .n_settings = 5};
    CHECK(context_open(&options, &seams, &rank->ctx) == 0);
}

static void train(struct rank *rank, struct wk_model *model, struct wk_loader *loader,
                  struct wk_optimizer *optimizer)
{
    struct wk_batch batch;
    looking = rank;
    for (int i = 0; i < STEPS && wk_next(loader, &batch); i++) {
        wk_forward(model, &batch, NULL);
        wk_backward(model);
        wk_step(optimizer);
        rank->rest = state_bytes(rank->ctx);
        rank->most = rank->rest > rank->most ? rank->rest : rank->most;
        if (narrowing_on(&rank->ctx->mixed.narrowing))
            wk_gather_parameters(model); /* which costs nothing once the next pass has begun */
    }
    looking = NULL;
}

/* What `muster model estimate` says of it. */
static int64_t estimated(const struct kind *kind, struct wk_model *model,
                         const struct wk_optimizer *optimizer)
{
    static const char *const names[] = {"ddp", "zero1", "zero2", "fsdp"};
    struct estimate e;
    struct estimate_options options = {
        .world = RANKS,
        .samples = 1,
        .compute = kind->precision[0] == 'n' ? WK_F32 : WK_BF16,
        .low_gradients = kind->low_gradients[0] == 't',
        .prefetch = 1,
        .bucket_bytes = BUCKET_BYTES,
        .optimizer = optimizer,
    };
    while (strcmp(names[options.strategy], kind->strategy) != 0)
        options.strategy++;
    CHECK(estimate_training(model, &options, &e, NULL) == 0);
    return e.parameters + e.low + e.gradients + e.optimizer;
}

static void *run_rank(void *arg)
{
    struct rank *rank = arg;
    struct wk_source *source;
    struct wk_loader *loader;
    struct wk_model *model;
    struct wk_optimizer *optimizer;
    char text[RANKS * LENGTH * STEPS + 1];
    memset(text, 'a', sizeof(text));
    open_context(rank);
    wk_source_bytes(rank->ctx, text, sizeof(text), &source);
    struct wk_loader_options options = {.source = source, .length = LENGTH, .batch = RANKS};
    wk_loader_new(rank->ctx, &options, &loader);
    struct wk_gpt_config gpt = {LAYERS, 1, WIDTH, LENGTH, 128};
    wk_gpt_new(&gpt, &model);
    struct wk_adamw_options adamw = {1e-3, 0.9, 0.95, 1e-8, 0.1};
    wk_adamw_new(&adamw, &optimizer);
    wk_prepare_all(rank->ctx, WK_OBJECT(model), WK_OBJECT(optimizer), WK_OBJECT(loader));
    rank->count = wk_model_count(model);
    rank->estimated = estimated(rank->kind, model, optimizer);
    if (!wk_status(rank->ctx))
        train(rank, model, loader, optimizer);
    rank->status = wk_status(rank->ctx);
    if (rank->status)
        fprintf(stderr, "%s\n", wk_last_error(rank->ctx));
    wk_close(rank->ctx);
    wk_optimizer_free(optimizer);
    wk_loader_free(loader);
    wk_source_free(source);
    wk_model_free(model);
    return NULL;
}

/* Units in use, at most two of parameters in front and two of gradients behind the one at work, are
 * what a model of 48 layers adds; rows padded to cache lines and pages the rest.
 */
static void memory_is_that_of_the_formulas(void)
{
    static const int workers[RANKS] = {0, 1, 2, 3};
    for (size_t k = 0; k < sizeof(kinds) / sizeof(kinds[0]); k++) {
        const struct kind *kind = &kinds[k];
        struct rank ranks[RANKS];
        pthread_t threads[RANKS];
        struct fake_cluster cluster;
        fake_init(&cluster);
        fake_form(&cluster, workers, RANKS);
        for (int i = 0; i < RANKS; i++) {
            ranks[i] =
                (struct rank){.kind = kind, .session = fake_session(&cluster, i), .chances = i};
            pthread_create(&threads[i], NULL, run_rank, &ranks[i]);
        }
        double formula = kind->whole + kind->cut / RANKS, rest = 0, most = 0;
        for (int i = 0; i < RANKS; i++) {
            pthread_join(threads[i], NULL);
            CHECK(ranks[i].status == 0);
            double count = (double)ranks[i].count;
            rest = (double)ranks[i].rest / count > rest ? (double)ranks[i].rest / count : rest;
            most = (double)ranks[i].most / count > most ? (double)ranks[i].most / count : most;
        }
        fake_fini(&cluster);
        double planned = (double)ranks[0].estimated / (double)ranks[0].count;
        printf("%-5s %-4s%s: %.2f at rest, %.2f at most, formula %.2f: %.3f, %.3f; "
               "estimated %.2f: %.3f\n",
               kind->strategy, kind->precision, kind->low_gradients[0] == 't' ? " sums" : "", rest,
               most, formula, rest / formula, most / formula, planned, most / planned);
        CHECK(most < 1.15 * formula && most > 0.95 * formula);
        CHECK(rest <= most && rest < 1.10 * formula);
        CHECK(most < 1.08 * planned && most > 0.95 * planned);
    }
}

int main(int argc, char **argv)
{
    static const struct check_case cases[] = {CHECK_CASE(memory_is_that_of_the_formulas), {0}};
    return check_all(cases, argc, argv);
}
