/* Ranks with other models hear of it when they meet: which rank, and what differs. Two processes,
 * each of which builds its own.
 */
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/lib/check.h"
#include "tests/numeric/train/ranked.h"
#include "tests/numeric/train/toy.h"

enum { RANKS = 2, WIDTH = 16, VOCAB = 128 };

static struct wk_graph *text_graph(bool relu, bool deep, double weight)
{
    struct wk_graph *g = wk_graph_new("text");
    struct wk_shape shape = WK_SHAPE(WK_SAMPLES, WK_LENGTH);
    struct wk_tensor *tokens = wk_graph_input(g, "tokens", WK_I32, shape);
    struct wk_tensor *targets = wk_graph_input(g, "targets", WK_I32, shape);
    wk_graph_max_length(g, 64);
    wk_graph_block(g, "embedding");
    struct wk_tensor *x = wk_layer_embedding(tokens, "token", VOCAB, WIDTH);
    wk_graph_block(g, "hidden");
    x = wk_layer_linear(x, "up", WIDTH);
    x = relu ? wk_op_relu(x) : wk_op_gelu(x);
    if (deep)
        x = wk_op_tanh(x);
    x = wk_layer_linear(x, "head", VOCAB);
    wk_graph_loss(g, "loss", wk_op_cross_entropy(x, targets, NULL),
                  &(struct wk_loss){.weight = weight});
    return g;
}

static struct wk_graph *plain(void)
{
    return text_graph(true, false, 1);
}

static struct wk_graph *with_gelu(void)
{
    return text_graph(false, false, 1);
}

static struct wk_graph *with_more(void)
{
    return text_graph(true, true, 1);
}

static struct wk_graph *with_half(void)
{
    return text_graph(true, false, 0.5);
}

/* How rank 1 is, beside rank 0. */
struct scene {
    struct wk_graph *(*graph)(void);
    double dropout; /* of GPTs */
    int64_t budgets[RANKS];
    const char *words; /* NULL: they train */
};

struct ending {
    int status, exit_code;
    char error[1024];
    int64_t budget;
};

static bool note_budget(void *arg, struct wk_context *ctx)
{
    *(int64_t *)arg = units_main(ctx)->model->recompute_bytes;
    return false;
}

static void run_rank(const struct scene *scene, int rank, int port, struct ending *ret)
{
    static struct toy toy;
    struct ranked ranked;
    ranked_init(&ranked, rank, RANKS, port);
    toy = (struct toy){.environment = &ranked.environment, .stepped = note_budget};
    toy.arg = &ret->budget;
    toy_set(&toy, "total_steps", "3");
    if (scene->graph)
        toy.graph = rank ? scene->graph : plain;
    toy.dropout = rank ? scene->dropout : 0;
    toy.within_bytes = scene->budgets[rank];
    toy_run(&toy);
    ret->status = toy.status;
    ret->exit_code = toy.exit_code;
    memcpy(ret->error, toy.error, sizeof(ret->error));
}

static void run_both(const struct scene *scene, struct ending *results)
{
    int port = ranked_port();
    pid_t children[RANKS];
    memset(results, 0, RANKS * sizeof(*results));
    for (int i = 0; i < RANKS; i++) {
        children[i] = fork();
        CHECK(children[i] >= 0);
        if (!children[i]) {
            run_rank(scene, i, port, &results[i]);
            _exit(0);
        }
    }
    for (int i = 0; i < RANKS; i++) {
        int status;
        CHECK(waitpid(children[i], &status, 0) == children[i] && status == 0);
    }
}

static void ranks_with_other_models_are_told_what_differs(void)
{
    static const struct scene scenes[] = {
        {plain, .words = NULL},
        {with_gelu, .words = "in an operation of model 1: \"relu(t6) in block hidden: [samples, "
                             "length, 16] f32\" on rank 0 is \"gelu(t6) in block hidden"},
        {with_more,
         .words = "is \"tanh(t7) in block hidden: [samples, length, 16] f32\" on rank 1"},
        {with_half, .words = "\"loss loss of t"},
        {.dropout = 0.25, .words = "in the training pass of model 1: \"dropout 0 of seed 0"},
    };
    struct ending *results = mmap(NULL, RANKS * sizeof(*results), PROT_READ | PROT_WRITE,
                                  MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    CHECK(results != MAP_FAILED);
    for (size_t s = 0; s < sizeof(scenes) / sizeof(scenes[0]); s++) {
        run_both(&scenes[s], results);
        for (int i = 0; i < RANKS; i++) {
            const char *words = scenes[s].words;
            bool told = !words ? results[i].status == 0
                               : results[i].status == WK_EMISMATCH &&
                                     results[i].exit_code == WK_EXIT_CONFIG &&
                                     strstr(results[i].error, words);
            if (!told)
                fprintf(stderr, "scene %zu, rank %d: %s\n", s, i, results[i].error);
            CHECK(told);
        }
    }
    munmap(results, RANKS * sizeof(*results));
}

/* A budget is rank 0's, whatever another one asked for. */
static void rank_0_decides_the_budget(void)
{
    const struct scene scene = {.budgets = {100 << 20, 90 << 20}};
    struct ending *results = mmap(NULL, RANKS * sizeof(*results), PROT_READ | PROT_WRITE,
                                  MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    CHECK(results != MAP_FAILED);
    run_both(&scene, results);
    for (int i = 0; i < RANKS; i++) {
        if (results[i].status)
            fprintf(stderr, "rank %d: %s\n", i, results[i].error);
        CHECK(results[i].status == 0 && results[i].budget == 100 << 20);
    }
    munmap(results, RANKS * sizeof(*results));
}

int main(int argc, char **argv)
{
    static const struct check_case cases[] = {
        CHECK_CASE(ranks_with_other_models_are_told_what_differs),
        CHECK_CASE(rank_0_decides_the_budget),
        {0},
    };
    return check_all(cases, argc, argv);
}
