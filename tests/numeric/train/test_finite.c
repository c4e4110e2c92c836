/* A gradient that is not finite while the loss is: no rank takes that step, and each says which
 * parameter's it is, under every strategy and precision, on one rank and two, however gradients are
 * clipped.
 */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "tests/lib/check.h"
#include "tests/numeric/train/fake_session.h"
#include "tests/numeric/train/toy.h"

enum { RANKS = 2, SPOILED_STEP = 3, FIRST = 5, SECOND = 9 };

struct spoiler {
    float value;         /* what an element of two gradients becomes; 0: nothing */
    int passes, updates; /* updates that were not taken back without a trace */
    const struct strategy_range *range;
    uint64_t before;
    char first[128]; /* the name of the first of the two */
};

static _Thread_local struct spoiler *spoiler;

void __real_model_announce(struct wk_model *model, int index);
void __wrap_model_announce(struct wk_model *model, int index);
void __wrap_model_announce(struct wk_model *model, int index)
{
    const struct param *param = &model->params[index];
    spoiler->passes += index == FIRST;
    if (index == FIRST)
        snprintf(spoiler->first, sizeof(spoiler->first), "of parameter %s", param->name);
    /* SECOND is announced before. */
    bool now = spoiler->passes == SPOILED_STEP - (index == SECOND);
    if (spoiler->value != 0 && now && (index == FIRST || index == SECOND))
        param->grad[param->count - 1] = spoiler->value;
    __real_model_announce(model, index);
}

static uint64_t digest(const struct strategy_range *range)
{
    uint64_t digest = 0;
    uint32_t bits;
    for (size_t i = 0; i < range->count; i++) {
        memcpy(&bits, &range->data[i], sizeof(bits));
        digest = digest * 1099511628211u + bits;
    }
    return digest;
}

int __real_strategy_update(struct strategy *st, struct wk_optimizer *optimizer, struct error *err);
int __wrap_strategy_update(struct strategy *st, struct wk_optimizer *optimizer, struct error *err);
int __wrap_strategy_update(struct strategy *st, struct wk_optimizer *optimizer, struct error *err)
{
    spoiler->updates++;
    spoiler->range = strategy_range(st);
    spoiler->before = digest(spoiler->range);
    return __real_strategy_update(st, optimizer, err);
}

/* The update left everything as it was. */
void __real_optimizer_take_back(struct wk_optimizer *optimizer);
void __wrap_optimizer_take_back(struct wk_optimizer *optimizer);
void __wrap_optimizer_take_back(struct wk_optimizer *optimizer)
{
    spoiler->updates -= digest(spoiler->range) == spoiler->before;
    __real_optimizer_take_back(optimizer);
}

struct scene {
    const char *settings[5][2];
    bool calls_clip; /* the program clips by the norm itself */
    float value;
    int ranks;
};

static struct toy toys[RANKS];
static struct spoiler spoilers[RANKS];

static void *rank_thread(void *arg)
{
    spoiler = &spoilers[(struct toy *)arg - toys];
    toy_run(arg);
    return NULL;
}

/* The last rank's gradients are spoiled. */
static void play(const struct scene *scene)
{
    pthread_t threads[RANKS];
    struct fake_cluster cluster;
    fake_init(&cluster);
    fake_form(&cluster, (const int[]){0, 1}, scene->ranks);
    memset(toys, 0, sizeof(toys));
    memset(spoilers, 0, sizeof(spoilers));
    spoilers[scene->ranks - 1].value = scene->value;
    for (int i = 0; i < scene->ranks; i++) {
        toys[i].session = fake_session(&cluster, i);
        toys[i].clip = scene->calls_clip ? 1 : -1;
        toy_set(&toys[i], "total_steps", "4");
        toy_set(&toys[i], "bucket_mib", "0.02");
        for (int s = 0; s < 5 && scene->settings[s][0]; s++)
            toy_set(&toys[i], scene->settings[s][0], scene->settings[s][1]);
        pthread_create(&threads[i], NULL, rank_thread, &toys[i]);
    }
    for (int i = 0; i < scene->ranks; i++)
        pthread_join(threads[i], NULL);
    fake_fini(&cluster);
}

static void check_refused(const struct scene *scene)
{
    play(scene);
    for (int i = 0; i < scene->ranks; i++) {
        const struct toy *toy = &toys[i];
        bool good = toy->status == WK_EOVERFLOW && toy->losses[SPOILED_STEP - 1] > 0 &&
                    toy->losses[SPOILED_STEP] == 0 && spoilers[i].updates == SPOILED_STEP - 1 &&
                    strstr(toy->error, "step 3 is not done: the gradient ") &&
                    strstr(toy->error, spoilers[i].first);
        if (!good)
            fprintf(stderr, "%s, %s, rank %d of %d, %g, clipping by %s: %d updates, %d %s\n",
                    scene->settings[0][1], scene->settings[1][1], i, scene->ranks,
                    (double)scene->value,
                    scene->calls_clip       ? "a call"
                    : scene->settings[2][0] ? scene->settings[2][0]
                                            : "nothing",
                    spoilers[i].updates, toy->status, toy->error);
        CHECK(good);
    }
}

static const char *const strategies[] = {"ddp", "zero1", "zero2", "fsdp"};

static void every_way_to_clip(struct scene scene)
{
    static const char *const clips[] = {"clip_grad_norm", "clip_grad_value"};
    for (int way = 0; way < 5; way++) {
        struct scene one = scene;
        int at = 2;
        for (int c = 0; c < 2 && way < 4; c++)
            if (way & (1 << c)) {
                one.settings[at][0] = clips[c];
                one.settings[at++][1] = "1";
            }
        one.calls_clip = way == 4;
        check_refused(&one);
    }
}

static void everywhere(const char *precision)
{
    static const float values[] = {NAN, INFINITY, -INFINITY};
    for (int s = 0; s < 4; s++)
        for (int ranks = 1; ranks <= RANKS; ranks++)
            every_way_to_clip((struct scene){
                .settings = {{"strategy", strategies[s]}, {"mixed_precision", precision}},
                .value = values[(s + ranks) % 3],
                .ranks = ranks,
            });
}

static void in_float(void)
{
    everywhere("no");
}

static void in_bf16(void)
{
    everywhere("bf16");
}

static void in_narrow_sums(void)
{
    for (int s = 1; s < 4; s++)
        for (int ranks = 1; ranks <= RANKS; ranks++)
            check_refused(&(struct scene){.settings = {{"strategy", strategies[s]},
                                                       {"mixed_precision", "bf16"},
                                                       {"low_gradients", "true"}},
                                          .value = INFINITY,
                                          .ranks = ranks});
}

static void over_replicas(void)
{
    for (int s = 1; s < 4; s++)
        check_refused(&(struct scene){.settings = {{"strategy", strategies[s]},
                                                   {"mixed_precision", "no"},
                                                   {"mesh.dp_replicate", "2"}},
                                      .value = NAN,
                                      .ranks = 2});
}

static void under_every_hook(void)
{
    static const char *const hooks[] = {"none", "fp16", "bf16", "powersgd"};
    for (int h = 0; h < 4; h++) {
        struct scene scene = {
            .settings = {{"strategy", "ddp"}, {"mixed_precision", "no"}, {"ddp.hook", hooks[h]}},
            .value = INFINITY,
            .ranks = 2};
        if (h < 3) {
            check_refused(&scene);
            continue;
        }
        /* Its passes at the start sum everything; afterwards one value spoils its whole matrix. */
        scene.settings[3][0] = "ddp.powersgd_warm_up";
        scene.settings[3][1] = "1";
        check_refused(&scene);
    }
}

/* What is large, and what is limited, is no reason to stop. */
static void finite_gradients_go_on(void)
{
    for (int s = 0; s < 4; s++) {
        play(&(struct scene){.settings = {{"strategy", strategies[s]}, {"clip_grad_value", "1"}},
                             .value = 3e38f,
                             .ranks = 1});
        CHECK(toys[0].status == 0 && spoilers[0].updates == 4);
    }
}

int main(int argc, char **argv)
{
    static const struct check_case cases[] = {
        CHECK_CASE(in_float),
        CHECK_CASE(in_bf16),
        CHECK_CASE(in_narrow_sums),
        CHECK_CASE(over_replicas),
        CHECK_CASE(under_every_hook),
        CHECK_CASE(finite_gradients_go_on),
        {0},
    };
    return check_all(cases, argc, argv);
}
