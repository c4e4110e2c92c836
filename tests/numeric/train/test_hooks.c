/* How DDP sums gradients: compressed, by a program's own hook, in the order they come, and with
 * parameters that take no part. Ranks are threads with a model of named buffers whose gradients the
 * test makes up, so that every sum is known.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "libworker/parallel/ddp.h"
#include "libworker/parallel/hook.h"
#include "tests/lib/check.h"
#include "tests/lib/rounding.h"
#include "tests/numeric/train/fake_session.h"
#include "tests/numeric/train/toy.h"

enum { RANKS = 2, PARAMS = 4, STEPS = 6, COUNT = 24 * 36 + 7 + 6 * 5 * 8 + 64 * 48 };

static const struct wk_buffer buffers[PARAMS] = {
    {.name = "a", .dims = 2, .shape = {24, 36}},
    {.name = "b", .dims = 1, .shape = {7}},
    {.name = "c", .dims = 3, .shape = {6, 5, 8}},
    {.name = "d", .dims = 2, .shape = {64, 48}},
};
static const size_t counts[PARAMS] = {24 * 36, 7, 6 * 5 * 8, 64 * 48};
static const size_t firsts[PARAMS] = {0, 24 * 36, 24 * 36 + 7, 24 * 36 + 7 + 6 * 5 * 8};

struct scene {
    struct wk_setting settings[TOY_SETTINGS_MAX];
    int n_settings;
    const struct wk_gradient_hook *hook; /* of the program, or NULL */
    /* What a rank announces in a step: indices, -1 at the end. */
    const int *(*announce)(int rank, int step);
    int steps;
    /* Results: */
    float sums[RANKS][STEPS][COUNT];
    int status[RANKS], order[RANKS][PARAMS];
    char error[RANKS][1024];
};

struct rank {
    struct scene *scene;
    struct session *session;
    int rank;
};

/* A gradient with a few strong directions and noise, as gradients of layers have. */
static float gradient(int rank, int step, size_t i)
{
    uint64_t mixed = (i + 1) * 0x9e3779b97f4a7c15u ^ (uint64_t)(rank * 7 + step * 31 + 1) << 40;
    mixed = (mixed ^ mixed >> 29) * 0xbf58476d1ce4e5b9u;
    double noise = (double)(mixed >> 11) / (double)(1ull << 53) - 0.5;
    double wave = sin(0.37 * (double)(i % 48) + rank) * cos(0.11 * (double)(i / 48) + 0.2 * step);
    return (float)(wave + 0.3 * noise);
}

static const int *all_backwards(int rank, int step)
{
    static const int order[] = {3, 2, 1, 0, -1};
    (void)rank;
    (void)step;
    return order;
}

static const char *nothing(void *arg, const char *name)
{
    (void)arg;
    (void)name;
    return NULL;
}

static void one_step(struct rank *r, struct wk_model *model, int step)
{
    struct scene *scene = r->scene;
    for (int p = 0; p < PARAMS; p++)
        for (size_t i = 0; i < counts[p]; i++)
            wk_parameter_grad(model, p)[i] = gradient(r->rank, step, firsts[p] + i);
    for (const int *at = scene->announce(r->rank, step); *at >= 0; at++)
        wk_grad_ready(model, *at);
    wk_backward(model);
    wk_clip_grad_norm(model, 0, NULL); /* waits for the sums */
    for (int p = 0; p < PARAMS; p++)
        memcpy(scene->sums[r->rank][step] + firsts[p], wk_parameter_grad(model, p),
               counts[p] * sizeof(float));
}

static void *run_rank(void *arg)
{
    struct rank *r = arg;
    struct environment environment = {nothing, NULL};
    struct context_seams seams = {
        .environment = &environment, .session = r->session, .quiet = true};
    struct wk_options options = {.settings = r->scene->settings,
                                 .n_settings = r->scene->n_settings};
    struct wk_context *ctx;
    struct wk_model *model;
    struct wk_optimizer *optimizer;
    struct wk_sgd_options sgd = {.rate = 0.01};
    CHECK(context_open(&options, &seams, &ctx) == 0);
    CHECK(wk_custom_new(buffers, PARAMS, &model) == 0 && wk_sgd_new(&sgd, &optimizer) == 0);
    CHECK(wk_prepare_all(ctx, WK_OBJECT(model), WK_OBJECT(optimizer)) == 0);
    if (r->scene->hook)
        CHECK(wk_set_gradient_hook(model, r->scene->hook) == 0);
    for (int step = 0; step < r->scene->steps && !wk_status(ctx); step++) {
        one_step(r, model, step);
        wk_step(optimizer);
    }
    r->scene->status[r->rank] = wk_status(ctx);
    snprintf(r->scene->error[r->rank], sizeof(r->scene->error[0]), "%s", wk_last_error(ctx));
    const struct strategy *st = &unit_of_model(model)->strategy;
    if (st->ops == &ddp_ops)
        memcpy(r->scene->order[r->rank], ((const struct ddp *)st->memory.self)->reducer.order,
               sizeof(r->scene->order[0]));
    wk_close(ctx);
    wk_optimizer_free(optimizer);
    wk_model_free(model);
    return NULL;
}

static void set(struct scene *scene, const char *name, const char *value)
{
    scene->settings[scene->n_settings++] = (struct wk_setting){name, value};
}

static void run(struct scene *scene)
{
    struct fake_cluster cluster;
    struct rank ranks[RANKS];
    pthread_t threads[RANKS];
    fake_init(&cluster);
    fake_form(&cluster, (const int[]){0, 1}, RANKS);
    scene->announce = scene->announce ? scene->announce : all_backwards;
    scene->steps = scene->steps ? scene->steps : STEPS;
    set(scene, "bucket_mib", "0.004");
    set(scene, "first_bucket_mib", "0.001");
    for (int i = 0; i < RANKS; i++) {
        ranks[i] = (struct rank){scene, fake_session(&cluster, i), i};
        pthread_create(&threads[i], NULL, run_rank, &ranks[i]);
    }
    for (int i = 0; i < RANKS; i++)
        pthread_join(threads[i], NULL);
    fake_fini(&cluster);
}

static void must_succeed(struct scene *scene)
{
    run(scene);
    for (int i = 0; i < RANKS; i++) {
        if (scene->status[i])
            fprintf(stderr, "rank %d: %s\n", i, scene->error[i]);
        CHECK(scene->status[i] == 0);
    }
    CHECK(memcmp(scene->sums[0], scene->sums[1], sizeof(scene->sums[0])) == 0);
}

static void must_fail(struct scene *scene, const char *sentence)
{
    run(scene);
    for (int i = 0; i < RANKS; i++) {
        if (!strstr(scene->error[i], sentence))
            fprintf(stderr, "rank %d: %s\n", i, scene->error[i]);
        CHECK(scene->status[i] == WK_ESTATE && strstr(scene->error[i], sentence));
    }
}

/* Largest error in units of what rounding each summand and the sum to `bits` bits may cost. */
static double rounding_error(const struct scene *scene, double unit)
{
    double most = 0;
    for (int step = 0; step < STEPS; step++)
        for (size_t i = 0; i < COUNT; i++) {
            double sum = 0, sizes = 0;
            for (int r = 0; r < RANKS; r++) {
                sum += (double)gradient(r, step, i);
                sizes += fabs((double)gradient(r, step, i));
            }
            double allowed = unit * (sizes + fabs(sum)) + RANKS * rounding_bound(1);
            most = fmax(most, fabs((double)scene->sums[0][step][i] - sum) / allowed);
        }
    return most;
}

static void half_precision_costs_its_roundings_and_no_more(void)
{
    static struct scene f16, bf16, plain;
    set(&f16, "ddp.hook", "fp16");
    set(&bf16, "ddp.hook", "bf16");
    must_succeed(&plain);
    must_succeed(&f16);
    must_succeed(&bf16);
    double a = rounding_error(&plain, 0x1p-24), b = rounding_error(&f16, 0x1p-11),
           c = rounding_error(&bf16, 0x1p-8);
    printf("errors in bounds: plain %.2f, fp16 %.2f, bf16 %.2f\n", a, b, c);
    CHECK(a <= 1 && b <= 1 && b > 0.2 && c <= 1 && c > 0.2);
}

/* PowerSGD as the paper has it, in double, of one matrix. */
struct reference {
    size_t rows, cols, rank;
    double error[RANKS][64 * 48], q[48 * 8], result[64 * 48];
};

static void orthonormal(double *p, size_t rows, size_t rank)
{
    for (size_t c = 0; c < rank; c++) {
        double norm = 0;
        for (size_t other = 0; other < c; other++) {
            double dot = 0;
            for (size_t r = 0; r < rows; r++)
                dot += p[r * rank + c] * p[r * rank + other];
            for (size_t r = 0; r < rows; r++)
                p[r * rank + c] -= dot * p[r * rank + other];
        }
        for (size_t r = 0; r < rows; r++)
            norm += p[r * rank + c] * p[r * rank + c];
        for (size_t r = 0; r < rows; r++)
            p[r * rank + c] /= sqrt(norm);
    }
}

static void reference_step(struct reference *ref, int param, int step)
{
    static double p[64 * 8], q[48 * 8];
    size_t m = ref->rows, n = ref->cols, k = ref->rank;
    memset(p, 0, sizeof(p));
    memset(q, 0, sizeof(q));
    for (int r = 0; r < RANKS; r++)
        for (size_t i = 0; i < m * n; i++)
            ref->error[r][i] += (double)gradient(r, step, firsts[param] + i);
    for (int r = 0; r < RANKS; r++)
        for (size_t i = 0; i < m; i++)
            for (size_t j = 0; j < n; j++)
                for (size_t c = 0; c < k; c++)
                    p[i * k + c] += ref->error[r][i * n + j] * ref->q[j * k + c];
    orthonormal(p, m, k);
    for (int r = 0; r < RANKS; r++)
        for (size_t i = 0; i < m; i++)
            for (size_t j = 0; j < n; j++)
                for (size_t c = 0; c < k; c++)
                    q[j * k + c] += ref->error[r][i * n + j] * p[i * k + c];
    for (size_t i = 0; i < m; i++)
        for (size_t j = 0; j < n; j++) {
            double sum = 0;
            for (size_t c = 0; c < k; c++)
                sum += p[i * k + c] * q[j * k + c];
            ref->result[i * n + j] = sum;
            for (int r = 0; r < RANKS; r++)
                ref->error[r][i * n + j] -= sum / RANKS;
        }
    memcpy(ref->q, q, sizeof(q));
}

static void follow_reference(const struct scene *scene, int param, int rank, int warm_up)
{
    static struct reference ref;
    const struct param as_param = {
        .dims = buffers[param].dims, .shape = {buffers[param].shape[0]}, .count = counts[param]};
    struct powersgd_shape shape = powersgd_shape(&as_param, rank);
    float q[48 * 8];
    double most = 0, left = 0;
    memset(&ref, 0, sizeof(ref));
    ref.rows = shape.rows;
    ref.cols = shape.cols;
    ref.rank = shape.rank;
    CHECK(shape.compressed && ref.cols * ref.rank <= 48 * 8);
    powersgd_first(q, ref.cols * ref.rank, 1337, buffers[param].name);
    for (size_t i = 0; i < ref.cols * ref.rank; i++)
        ref.q[i] = (double)q[i];
    for (int step = 0; step < STEPS; step++) {
        if (step >= warm_up)
            reference_step(&ref, param, step);
        for (size_t i = 0; i < counts[param]; i++) {
            double got = (double)scene->sums[0][step][firsts[param] + i], exact = 0;
            for (int r = 0; r < RANKS; r++)
                exact += (double)gradient(r, step, firsts[param] + i);
            most = fmax(most, fabs(got - (step < warm_up ? exact : ref.result[i])));
            left = fmax(left, step < warm_up ? 0 : fabs(got - exact));
        }
    }
    printf("powersgd rank %d of %s: %.1e from the reference, %.1e from the sum\n", rank,
           buffers[param].name, most, left);
    /* Each step multiplies by the columns, then by the rows, what the step before left. */
    double sums = (double)(2 * STEPS) * (double)(ref.rows + ref.cols);
    CHECK(most < RANKS * rounding_bound(sums) && left > 1e-2);
}

static void powersgd_follows_the_paper(void)
{
    static struct scene one, four;
    set(&one, "ddp.hook", "powersgd");
    set(&one, "ddp.powersgd_warm_up", "0");
    set(&four, "ddp.hook", "powersgd");
    set(&four, "ddp.powersgd_warm_up", "2");
    set(&four, "ddp.powersgd_rank", "4");
    must_succeed(&one);
    must_succeed(&four);
    follow_reference(&one, 0, 1, 0);
    follow_reference(&one, 2, 1, 0);
    follow_reference(&one, 3, 1, 0);
    follow_reference(&four, 0, 4, 2);
    follow_reference(&four, 3, 4, 2);
    /* Vectors are summed as they are. */
    for (size_t i = 0; i < counts[1]; i++)
        CHECK(fabsf(one.sums[0][3][firsts[1] + i] -
                    (gradient(0, 3, firsts[1] + i) + gradient(1, 3, firsts[1] + i))) <=
              RANKS * (float)rounding_bound(1));
}

struct doubling {
    int started, finished, failures;
};

static int doubling_start(void *arg, struct wk_comm *comm, struct wk_gradients *gradients)
{
    struct wk_work *work = NULL;
    int rc = wk_all_reduce(comm, gradients->data, gradients->count, WK_F32, WK_SUM, &work);
    __atomic_fetch_add(&((struct doubling *)arg)->started, 1, __ATOMIC_RELAXED);
    gradients->own = work;
    return rc;
}

static int doubling_finish(void *arg, struct wk_comm *comm, struct wk_gradients *gradients)
{
    (void)comm;
    int rc = wk_wait(gradients->own);
    for (size_t i = 0; i < gradients->count; i++)
        gradients->data[i] *= 2;
    __atomic_fetch_add(&((struct doubling *)arg)->finished, 1, __ATOMIC_RELAXED);
    return rc;
}

static void a_programs_own_hook_takes_the_place_of_the_sum(void)
{
    static struct scene plain, doubled;
    struct doubling count = {0};
    struct wk_gradient_hook hook = {"doubling", doubling_start, doubling_finish, &count};
    doubled.hook = &hook;
    must_succeed(&plain);
    must_succeed(&doubled);
    CHECK(count.started >= 2 * RANKS * STEPS && count.started == count.finished);
    for (int step = 0; step < STEPS; step++)
        for (size_t i = 0; i < COUNT; i++)
            CHECK(doubled.sums[0][step][i] == 2 * plain.sums[0][step][i]);
}

/* Each rank in an order of its own. */
static const int *scattered(int rank, int step)
{
    static const int orders[RANKS][PARAMS + 1] = {{1, 3, 0, 2, -1}, {2, 0, 1, 3, -1}};
    (void)step;
    return orders[rank];
}

static void buckets_follow_the_order_that_rank_0_saw(void)
{
    static const int expected[PARAMS] = {1, 3, 0, 2};
    static struct scene plain, s;
    s.announce = scattered;
    must_succeed(&plain);
    must_succeed(&s);
    CHECK(memcmp(plain.sums, s.sums, sizeof(s.sums)) == 0);
    for (int i = 0; i < RANKS; i++)
        CHECK(memcmp(s.order[i], expected, sizeof(expected)) == 0);
}

/* From the third step on rank 1 leaves one out. */
static const int *one_left_out(int rank, int step)
{
    static const int order[] = {3, 1, 0, -1};
    return rank == 1 && step >= 2 ? order : all_backwards(rank, step);
}

static const int *none(int rank, int step)
{
    static const int order[] = {-1};
    return rank == 1 ? order : all_backwards(rank, step);
}

static void a_parameter_that_is_never_ready_is_an_error_on_every_rank(void)
{
    static const char *const strategies[] = {"ddp", "zero1", "zero2", "fsdp"};
    static struct scene scenes[4], fine, silent;
    for (int i = 0; i < 4; i++) {
        scenes[i].announce = one_left_out;
        set(&scenes[i], "strategy", strategies[i]);
        must_fail(&scenes[i], "1 of 4 parameters were not ready on every rank in the backward "
                              "passes of this step: c (on 1 of 2)");
    }
    fine.announce = one_left_out;
    set(&fine, "ddp.find_unused", "true");
    must_succeed(&fine);
    silent.announce = none; /* costs the overlap only */
    must_succeed(&silent);
    CHECK(memcmp(fine.sums, silent.sums, sizeof(fine.sums)) == 0);
}

/* One is announced three times, and only then final; another never. */
static const int *shared_weight(int rank, int step)
{
    static const int order[] = {2, 3, 2, 0, 2, -1};
    (void)rank;
    (void)step;
    return order;
}

static const int *shared_then_changed(int rank, int step)
{
    static const int order[] = {2, 3, 0, 2, -1};
    return rank == 1 && step == 4 ? order : shared_weight(rank, step);
}

static void a_static_graph_is_learned_once_and_held_to(void)
{
    static struct scene plain, s, changed;
    static const int expected[PARAMS] = {3, 0, 2, 1};
    must_succeed(&plain);
    s.announce = shared_weight;
    set(&s, "ddp.static_graph", "true");
    must_succeed(&s);
    CHECK(memcmp(plain.sums, s.sums, sizeof(s.sums)) == 0);
    CHECK(memcmp(s.order[0], expected, sizeof(expected)) == 0);
    CHECK(memcmp(s.order[1], expected, sizeof(expected)) == 0);
    changed.announce = shared_then_changed;
    set(&changed, "ddp.static_graph", "true");
    must_fail(&changed, "on 1 of 2 ranks a backward pass announced other gradients");
}

struct training {
    const char *hook, *rank;
    const char *scale;    /* initial one of fp16; NULL: in float */
    const char *interval; /* clean steps before it grows eightfold; NULL: never here */
};

static double train(struct training how)
{
    static struct toy toys[RANKS];
    struct fake_cluster cluster;
    pthread_t threads[RANKS];
    fake_init(&cluster);
    fake_form(&cluster, (const int[]){0, 1}, RANKS);
    memset(toys, 0, sizeof(toys));
    for (int i = 0; i < RANKS; i++) {
        toys[i].session = fake_session(&cluster, i);
        toy_set(&toys[i], "total_steps", "60");
        toy_set(&toys[i], "bucket_mib", "0.02");
        toy_set(&toys[i], "ddp.hook", how.hook);
        toy_set(&toys[i], "ddp.powersgd_rank", how.rank ? how.rank : "1");
        toy_set(&toys[i], "ddp.powersgd_warm_up", how.scale ? "0" : "5");
        if (how.scale) {
            toy_set(&toys[i], "mixed_precision", "fp16");
            toy_set(&toys[i], "loss_scale.initial", how.scale);
            toy_set(&toys[i], "loss_scale.growth", "8");
            toy_set(&toys[i], "loss_scale.interval", how.interval ? how.interval : "1000");
        }
        pthread_create(&threads[i], NULL, toy_thread, &toys[i]);
    }
    for (int i = 0; i < RANKS; i++) {
        pthread_join(threads[i], NULL);
        if (toys[i].status)
            fprintf(stderr, "rank %d: %s\n", i, toys[i].error);
        CHECK(toys[i].status == 0);
    }
    CHECK(memcmp(toys[0].losses, toys[1].losses, sizeof(toys[0].losses)) == 0);
    fake_fini(&cluster);
    printf("%s: loss %.6f to %.6f\n", how.hook, toys[0].losses[1], toys[0].losses[60]);
    return toys[0].losses[60];
}

static void compressed_training_learns_as_plain_training_does(void)
{
    double plain = train((struct training){"none"});
    CHECK(fabs(train((struct training){"fp16"}) - plain) < 0.01);
    CHECK(fabs(train((struct training){"bf16"}) - plain) < 0.02);
    double once = train((struct training){"powersgd", "4"});
    CHECK(once < plain + 0.3);
    CHECK(train((struct training){"powersgd", "4"}) == once);
}

/* What overflowed is not carried into the steps after it, which would never end then. */
static void an_overflow_leaves_nothing_in_powersgd(void)
{
    double fitting = train((struct training){"powersgd", "4", "1024"});
    double too_large = train((struct training){"powersgd", "4", "1099511627776"});
    CHECK(fabs(too_large - fitting) < 0.3);
}

/* What a step leaves out counts as much in the next one, whatever the gradients are scaled by. */
static void a_growing_scale_changes_nothing_in_powersgd(void)
{
    double fixed = train((struct training){"powersgd", "1", "16"});
    double growing = train((struct training){"powersgd", "1", "16", "15"});
    printf("with a growing scale: %.1e off\n", fabs(growing - fixed));
    CHECK(fabs(growing - fixed) < 1e-3);
}

int main(int argc, char **argv)
{
    static const struct check_case cases[] = {
        CHECK_CASE(half_precision_costs_its_roundings_and_no_more),
        CHECK_CASE(powersgd_follows_the_paper),
        CHECK_CASE(a_programs_own_hook_takes_the_place_of_the_sum),
        CHECK_CASE(buckets_follow_the_order_that_rank_0_saw),
        CHECK_CASE(a_parameter_that_is_never_ready_is_an_error_on_every_rank),
        CHECK_CASE(a_static_graph_is_learned_once_and_held_to),
        CHECK_CASE(compressed_training_learns_as_plain_training_does),
        CHECK_CASE(an_overflow_leaves_nothing_in_powersgd),
        CHECK_CASE(a_growing_scale_changes_nothing_in_powersgd),
        {0},
    };
    return check_all(cases, argc, argv);
}
