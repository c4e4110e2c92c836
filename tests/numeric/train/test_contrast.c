/* Features of all ranks in one loss (wk_op_all_gather): each sample is compared with those of the
 * global batch. Ranks train as one process with the whole batch; uneven shares are refused.
 */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "tests/lib/check.h"
#include "tests/lib/rounding.h"
#include "tests/numeric/train/fake_session.h"
#include "tests/numeric/train/graphs.h"
#include "tests/numeric/train/toy.h"
#include "tests/numeric/train/variant.h"

enum { PIXELS = 64, WIDTH = 5, STRATEGIES = 4, BATCH = 6 };
static const char *const strategies[STRATEGIES] = {"ddp", "zero1", "zero2", "fsdp"};

/* The sum over all pairs of samples of their features' product, squared; and a head, so that there
 * is something to learn. Features are used three times: gradients are added up. */
static struct wk_graph *contrast(void)
{
    struct wk_graph *g = wk_graph_new("contrast");
    struct wk_tensor *pixels = wk_graph_input(g, "pixels", WK_F32, WK_SHAPE(WK_SAMPLES, 1, 8, 8));
    struct wk_tensor *label = wk_graph_input(g, "label", WK_I32, WK_SHAPE(WK_SAMPLES));
    wk_graph_block(g, "features");
    struct wk_tensor *x = wk_op_reshape(pixels, WK_SHAPE(WK_SAMPLES, PIXELS));
    struct wk_tensor *features = wk_op_tanh(wk_layer_linear(x, "features", WIDTH));
    wk_graph_block(g, "pairs");
    struct wk_tensor *all = wk_op_all_gather(features, "dp");
    all = wk_op_reshape(all, WK_SHAPE(WK_REST, WIDTH));
    struct wk_tensor *pairs = wk_op_matmul(features, all, false, true);
    wk_graph_loss(g, "pairs", wk_op_multiply(pairs, pairs),
                  &(struct wk_loss){.weight = 0.02, .per = WK_PER_SAMPLE});
    wk_graph_block(g, "head");
    x = wk_layer_linear(features, "head", 4);
    wk_graph_loss(g, "kind", wk_op_cross_entropy(x, label, NULL),
                  &(struct wk_loss){.per = WK_PER_SAMPLE});
    return g;
}

/* Batches of an epoch that all ranks share evenly. */
static const struct wk_row_options *even_rows(void)
{
    static struct wk_row_options rows;
    rows = *graph_kinds[0].rows;
    rows.count = 10 * BATCH;
    return &rows;
}

static struct variant variant_of(const char *strategy, int ranks)
{
    return (struct variant){.strategy = strategy,
                            .ranks = ranks,
                            .precision = "no",
                            .batch = BATCH,
                            .graph = contrast,
                            .rows = even_rows()};
}

static void ranks_compare_with_the_global_batch(void)
{
    static struct outcome one, other;
    const double forward = PIXELS + 2 * WIDTH, gradient = 3 * forward + 2 * BATCH * BATCH;
    struct rounding_weights weights = rounding_adam(gradient, VARIANT_STEPS * 3e-3);
    struct variant v = variant_of("ddp", 1);
    variant_run(&v, &one);
    for (int s = 0; s < STRATEGIES; s++)
        for (int ranks = 1; ranks <= 3; ranks++) {
            v = variant_of(strategies[s], ranks);
            v.recompute = ranks == 2 ? "true" : "false";
            variant_run(&v, &other);
            struct apart apart = outcome_apart(&one, &other);
            printf("%s on %d: losses %.1e, norms %.1e, weights %.1e\n", strategies[s], ranks,
                   apart.losses, apart.norms, apart.weights);
            CHECK(apart.losses < rounding_bound(forward) + weights.mean);
            CHECK(apart.norms < rounding_bound(gradient) && apart.weights < weights.largest);
        }
}

static void uneven_shares_are_refused(void)
{
    static struct toy toys[2];
    pthread_t threads[2];
    struct fake_cluster cluster;
    fake_init(&cluster);
    fake_form(&cluster, (const int[]){0, 1}, 2);
    memset(toys, 0, sizeof(toys));
    for (int i = 0; i < 2; i++) {
        toys[i].session = fake_session(&cluster, i);
        toys[i].batch = BATCH + 1;
        toys[i].graph = contrast;
        toys[i].rows = graph_kinds[0].rows;
        toy_set(&toys[i], "total_steps", "3");
        pthread_create(&threads[i], NULL, toy_thread, &toys[i]);
    }
    for (int i = 0; i < 2; i++)
        pthread_join(threads[i], NULL);
    for (int i = 0; i < 2; i++) {
        printf("rank %d: %s\n", i, toys[i].error);
        CHECK(toys[i].status == WK_EMISMATCH && strstr(toys[i].error, "all_gather"));
    }
    fake_fini(&cluster);
}

int main(int argc, char **argv)
{
    static const struct check_case cases[] = {
        CHECK_CASE(ranks_compare_with_the_global_batch),
        CHECK_CASE(uneven_shares_are_refused),
        {0},
    };
    return check_all(cases, argc, argv);
}
