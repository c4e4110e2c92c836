/* Passes after the end of training, as a loop makes that looks at wk_next or wk_join too late: they
 * change nothing, ask nothing of the other ranks and are no error; after a stop they give its code.
 */
#include <string.h>

#include "tests/lib/check.h"
#include "tests/numeric/train/fake_session.h"
#include "tests/numeric/train/toy.h"

enum { RANKS = 3, LENGTH = 8, BATCH = 4, STEPS = 3, VALUES = 24, TIMES = 2 };

enum end { BY_STEPS, BY_DATA, BY_JOIN, BY_STOP };

struct scene {
    const char *strategy;
    enum end end;
    bool own; /* passes are the program's */
    struct fake_cluster cluster;
};

struct rank {
    struct scene *scene;
    int id;
    struct wk_context *ctx;
    struct wk_loader *loader;
    struct wk_model *model;
    struct wk_optimizer *sgd;
    struct wk_scheduler *scheduler;
    struct wk_batch batch; /* the last one */
};

static const char *nothing(void *arg, const char *name)
{
    (void)arg;
    (void)name;
    return NULL;
}

static void pass(struct rank *r)
{
    if (r->scene->own) {
        wk_set_loss(r->model, 1);
        for (int i = 0; i < VALUES; i++)
            wk_parameter_grad(r->model, 0)[i] += (float)(r->id + i);
        wk_grad_ready(r->model, 0);
    } else {
        wk_forward(r->model, &r->batch, NULL);
    }
    wk_backward(r->model);
    wk_clip_grad_norm(r->model, 1, NULL);
    wk_step(r->sgd);
    wk_scheduler_step(r->scheduler);
}

static bool next(struct rank *r)
{
    if (r->scene->end == BY_STOP && wk_steps(r->ctx) == STEPS)
        fake_stop(&r->scene->cluster);
    return r->scene->end == BY_JOIN ? wk_join(r->ctx, wk_steps(r->ctx) < STEPS)
                                    : wk_next(r->loader, &r->batch);
}

/* As the optimizer has them. After a stop there are no others to gather them from. */
static size_t take_weights(struct rank *r, float *ret)
{
    size_t n = 0;
    if (!wk_status(r->ctx))
        CHECK(wk_gather_parameters(r->model) == 0);
    for (int p = 0; p < r->model->n_params; n += r->model->params[p++].count)
        memcpy(ret + n, wk_parameter_data(r->model, p), r->model->params[p].count * sizeof(*ret));
    return n;
}

/* All ranks at once, then one of them alone. */
static void go_on(struct rank *r)
{
    static _Thread_local float before[1 << 14], after[1 << 14];
    struct wk_context *ctx = r->ctx;
    size_t n = take_weights(r, before);
    int64_t steps = wk_steps(ctx), scheduled = r->scheduler->step;
    double loss = wk_loss(ctx);
    int status = wk_status(ctx);
    CHECK(status == (r->scene->end == BY_STOP ? WK_ESTOPPED : 0) && steps >= STEPS);
    for (int i = 0; i < TIMES; i++) {
        CHECK(!next(r));
        pass(r);
        CHECK(!wk_step_taken(r->sgd));
    }
    if (r->id == 1 && r->scene->own) {
        pass(r);
        CHECK(wk_update(r->sgd, 2) == status && !wk_step_taken(r->sgd));
    }
    CHECK(wk_backward(r->model) == status && wk_step(r->sgd) == status);
    CHECK(wk_status(ctx) == status && wk_steps(ctx) == steps && r->scheduler->step == scheduled);
    double again = wk_loss(ctx);
    CHECK(memcmp(&again, &loss, sizeof(loss)) == 0);
    CHECK(take_weights(r, after) == n && memcmp(before, after, n * sizeof(*after)) == 0);
}

static void make(struct rank *r)
{
    static const char text[(STEPS * BATCH - 1) * LENGTH + 1];
    const struct wk_buffer buffer = {.name = "w", .dims = 1, .shape = {VALUES}};
    struct wk_source *source;
    CHECK(wk_source_bytes(r->ctx, text, sizeof(text), &source) == 0);
    struct wk_loader_options deal = {.source = source, .length = LENGTH, .batch = BATCH};
    deal.epochs = r->scene->end == BY_DATA;
    struct wk_gpt_config gpt = {1, 1, 8, LENGTH, 128};
    struct wk_schedule_options schedule = {WK_SCHEDULE_COSINE, 1, 60, 0.1};
    r->loader = wk_loader_in(r->ctx, NULL, &deal);
    if (r->scene->own)
        r->model =
            wk_custom_in(r->ctx, &(struct wk_custom_options){.count = 1, .buffers = &buffer});
    else
        r->model = wk_gpt_in(r->ctx, &gpt);
    r->sgd = wk_sgd_in(r->ctx, &(struct wk_sgd_options){.rate = 0.1});
    r->scheduler = wk_scheduler_in(r->ctx, r->sgd, &schedule);
    CHECK(wk_prepare(r->ctx, NULL, 0) == 0);
    while (next(r))
        pass(r);
    go_on(r);
    CHECK(wk_close(r->ctx) == (r->scene->end == BY_STOP ? WK_EXIT_STOPPED : 0));
    wk_source_free(source);
}

static void *rank_main(void *arg)
{
    struct rank *r = arg;
    struct environment environment = {nothing, NULL};
    struct context_seams seams = {.environment = &environment,
                                  .session = fake_session(&r->scene->cluster, r->id),
                                  .quiet = true};
    struct wk_setting settings[] = {{"strategy", r->scene->strategy}, {"total_steps", "3"}};
    struct wk_options options = {.settings = settings,
                                 .n_settings = r->scene->end == BY_STEPS ? 2 : 1};
    CHECK(context_open(&options, &seams, &r->ctx) == 0);
    make(r);
    return NULL;
}

static void run(struct scene *scene)
{
    struct rank ranks[RANKS];
    pthread_t threads[RANKS];
    fake_init(&scene->cluster);
    fake_form(&scene->cluster, (const int[]){0, 1, 2}, RANKS);
    for (int i = 0; i < RANKS; i++) {
        ranks[i] = (struct rank){.scene = scene, .id = i};
        CHECK(pthread_create(&threads[i], NULL, rank_main, &ranks[i]) == 0);
    }
    for (int i = 0; i < RANKS; i++)
        pthread_join(threads[i], NULL);
    fake_fini(&scene->cluster);
}

static void everywhere(enum end end)
{
    static const char *const strategies[] = {"ddp", "zero1", "zero2", "fsdp"};
    for (int own = end == BY_JOIN; own < 2; own++)
        for (int s = 0; s < 4; s++) {
            struct scene scene = {.strategy = strategies[s], .end = end, .own = own};
            run(&scene);
        }
}

static void passes_after_the_last_step_do_nothing(void)
{
    everywhere(BY_STEPS);
}

static void passes_after_the_last_batch_do_nothing(void)
{
    everywhere(BY_DATA);
}

static void passes_after_nobody_has_data_do_nothing(void)
{
    everywhere(BY_JOIN);
}

static void passes_after_a_stop_do_nothing_and_give_its_code(void)
{
    everywhere(BY_STOP);
}

int main(int argc, char **argv)
{
    static const struct check_case cases[] = {
        CHECK_CASE(passes_after_the_last_step_do_nothing),
        CHECK_CASE(passes_after_the_last_batch_do_nothing),
        CHECK_CASE(passes_after_nobody_has_data_do_nothing),
        CHECK_CASE(passes_after_a_stop_do_nothing_and_give_its_code),
        {0},
    };
    return check_all(cases, argc, argv);
}
