/* A function of the program's own operation fails for one sample: the rank that has it ends with
 * the sentence. Under ddp so does the other, which goes on with its samples; elsewhere a part of
 * the state is gone with the first. None waits for the other. */
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include <worker/custom_op.h>

#include "tests/lib/check.h"
#include "tests/numeric/train/fake_session.h"
#include "tests/numeric/train/graphs.h"
#include "tests/numeric/train/toy.h"

enum { RANKS = 2, BATCH = 7, BAD = 2 * BATCH + BATCH - 1 /* the last of the third step */ };
enum { PIXELS = 64, KINDS = 4 };

static bool has_bad_sample(const struct wk_op_call *call)
{
    return call->first_sample <= BAD && BAD < call->first_sample + call->samples;
}

static int copy_forward(struct wk_op_call *call)
{
    const bool *forward_fails = call->user;
    if (*forward_fails && has_bad_sample(call))
        return wk_op_fail(call, "sample %d", BAD);
    memcpy(call->out[0].data, call->in[0].data, (size_t)call->out[0].count * sizeof(float));
    return 0;
}

static int copy_backward(struct wk_op_call *call)
{
    const float *dy = call->d_out.data;
    float *dx = call->d_in[0].data;
    if (has_bad_sample(call))
        return wk_op_fail(call, "sample %d", BAD);
    for (int64_t i = 0; i < call->d_out.count; i++)
        dx[i] += dy[i];
    return 0;
}

static bool fails_forward;

static struct wk_graph *picky(void)
{
    struct wk_graph *g = wk_graph_new("picky");
    struct wk_tensor *x =
        wk_graph_input(g, "pixels", WK_F32, WK_SHAPE(WK_SAMPLES, 1, PIXELS / 8, 8));
    struct wk_tensor *label = wk_graph_input(g, "label", WK_I32, WK_SHAPE(WK_SAMPLES));
    wk_graph_block(g, "first");
    x = wk_layer_linear(wk_op_reshape(x, WK_SHAPE(WK_SAMPLES, PIXELS)), "first", KINDS);
    wk_graph_block(g, "middle");
    struct wk_custom_op op = {.name = "picky",
                              .functions = {{"cpu", copy_forward, copy_backward}},
                              .result = {.like = x},
                              .keeps = WK_OP_NOTHING,
                              .user = &fails_forward};
    x = wk_layer_linear(wk_op_custom(&x, 1, &op), "middle", KINDS);
    wk_graph_block(g, "last");
    x = wk_layer_linear(x, "last", KINDS);
    wk_graph_loss(g, "loss", wk_op_cross_entropy(x, label, NULL), NULL);
    return g;
}

static void first_goes_on(struct fake_cluster *cluster)
{
    fake_form_locked(cluster, (const int[]){0}, 1);
}

static void fail_under(const char *strategy, const char *words)
{
    static struct toy toys[RANKS];
    struct fake_cluster cluster;
    pthread_t threads[RANKS];
    memset(toys, 0, sizeof(toys));
    fake_init(&cluster);
    cluster.on_lost = first_goes_on;
    fake_form(&cluster, (const int[]){0, 1}, RANKS);
    for (int i = 0; i < RANKS; i++) {
        toys[i] = (struct toy){.session = fake_session(&cluster, i),
                               .graph = picky,
                               .rows = graph_kinds[0].rows,
                               .batch = BATCH};
        toy_set(&toys[i], "total_steps", "6");
        toy_set(&toys[i], "strategy", strategy);
        pthread_create(&threads[i], NULL, toy_thread, &toys[i]);
    }
    for (int i = 0; i < RANKS; i++) {
        pthread_join(threads[i], NULL);
        printf("%s, rank %d: %s\n", strategy, i, toys[i].error);
        CHECK(toys[i].status != 0);
        if (i == 1 || !strcmp(strategy, "ddp"))
            CHECK(toys[i].status == WK_EINVAL && strstr(toys[i].error, words));
        CHECK(toys[i].losses[2] > 0 && !(toys[i].losses[3] > 0));
    }
    fake_fini(&cluster);
}

static void an_error_of_a_function_ends_the_training(void)
{
    static const char *const strategies[] = {"ddp", "zero2", "fsdp"};
    for (int s = 0; s < 3; s++) {
        fails_forward = true;
        fail_under(strategies[s], "picky in block middle: forward failed: sample 20");
        fails_forward = false;
        fail_under(strategies[s], "picky in block middle: backward failed: sample 20");
    }
}

int main(int argc, char **argv)
{
    static const struct check_case cases[] = {
        CHECK_CASE(an_error_of_a_function_ends_the_training),
        {0},
    };
    return check_all(cases, argc, argv);
}
