/* What the backward pass computes again changes memory and time, and no bit: models of every kind,
 * in float and bf16, with dropout; and a plan within a number of bytes is within it, with no more
 * computed again than a larger number needs. */
#include <stdlib.h>
#include <string.h>

#include <worker/error.h>

#include "libworker/graph/layout.h"
#include "libworker/graph/node_cost.h"
#include "libworker/graph/pass.h"
#include "libworker/nn/random.h"
#include "tests/lib/check.h"
#include "tests/numeric/train/graphs.h"

enum { SAMPLES = 3, LENGTH = 24, VOCAB = 37, LAYERS = 4, WIDTH = 16, SIDE = 40, BUDGETS = 12 };
enum { GPT, LLAMA, MLP, ALONE, HANDED_ON, GRAPHS, KINDS = GRAPHS + GRAPH_KINDS };

static const char *name_of(int kind)
{
    static const char *const names[] = {"gpt", "llama", "mlp", "one block", "handed on"};
    return kind < GRAPHS ? names[kind] : graph_kinds[kind - GRAPHS].name;
}

/* Cheap operations of one block, some that read another's result only, and dropout of its own. */
static struct wk_graph *one_block(void)
{
    struct wk_graph *g = wk_graph_new("alone");
    struct wk_tensor *in = wk_graph_input(g, "pixels", WK_F32, WK_SHAPE(WK_SAMPLES, SIDE));
    struct wk_tensor *label = wk_graph_input(g, "label", WK_I32, WK_SHAPE(WK_SAMPLES));
    struct wk_tensor *x = wk_op_gelu_erf(wk_layer_linear(in, "up", SIDE));
    struct wk_tensor *y = wk_op_dropout(wk_layer_norm(x, "norm"), 0.25);
    x = wk_op_add(wk_layer_linear(y, "turn", SIDE), wk_op_scale(x, 0.5));
    x = wk_op_multiply(wk_op_silu(x), wk_op_softmax(wk_layer_linear(x, "gate", SIDE)));
    x = wk_op_reshape(wk_op_dropout(x, 0.1), WK_SHAPE(WK_SAMPLES, SIDE / 8, 8));
    x = wk_op_reduce(wk_op_tanh(wk_layer_linear(x, "part", 8)), WK_REDUCE_SUM, 1);
    wk_graph_loss(g, "loss", wk_op_cross_entropy(wk_layer_linear(x, "head", 4), label, NULL), NULL);
    return g;
}

/* Blocks that begin with what could be written over the result of the block before. */
static struct wk_graph *handed_on(void)
{
    struct wk_graph *g = wk_graph_new("handed_on");
    struct wk_tensor *x = wk_graph_input(g, "pixels", WK_F32, WK_SHAPE(WK_SAMPLES, SIDE));
    struct wk_tensor *label = wk_graph_input(g, "label", WK_I32, WK_SHAPE(WK_SAMPLES));
    for (int i = 0; i < LAYERS; i++) {
        wk_graph_scope(g, "layer%d", i);
        x = i ? wk_op_tanh(x) : x;
        x = wk_op_sigmoid(wk_layer_linear(x, "first", SIDE));
        x = wk_layer_linear(x, "second", SIDE);
    }
    wk_graph_block(g, "head");
    x = wk_layer_linear(wk_op_relu(x), "head", 4);
    wk_graph_loss(g, "loss", wk_op_cross_entropy(x, label, NULL), NULL);
    return g;
}

static struct wk_model *model_of(int kind)
{
    struct wk_model *model = NULL;
    struct wk_gpt_config gpt = {LAYERS, 2, WIDTH, LENGTH, VOCAB};
    struct wk_llama_config llama = {LAYERS, 4, 2, WIDTH, 24, LENGTH, VOCAB, 10000, 1e-5, true};
    struct wk_mlp_config mlp = {LAYERS, 3, 8, WIDTH, LENGTH, VOCAB};
    int rc = kind == GPT         ? wk_gpt_new(&gpt, &model)
             : kind == LLAMA     ? wk_llama_new(&llama, &model)
             : kind == MLP       ? wk_mlp_new(&mlp, &model)
             : kind == ALONE     ? wk_graph_model(one_block(), &model)
             : kind == HANDED_ON ? wk_graph_model(handed_on(), &model)
                                 : wk_graph_model(graph_kinds[kind - GRAPHS].build(), &model);
    CHECK(rc == 0);
    if (kind == GPT || kind == LLAMA)
        CHECK(wk_model_dropout(model, 0.2, 5) == 0);
    return model;
}

/* A model with a batch for it. */
struct subject {
    struct wk_model *model;
    struct wk_batch batch;
    struct wk_batch_tensor tensors[2];
    void *data[2];
    float *params, *grads;
    uint16_t *low;
};

static void fill_input(struct subject *s, const struct wk_tensor *input, int i)
{
    int64_t each = 1;
    bool index = input->type == WK_I32;
    for (int d = 1; d < input->dims; d++)
        each *= dim_size(input->shape[d], &(struct sizes){SAMPLES, s->batch.length});
    float *values = s->data[i] = calloc((size_t)(SAMPLES * each), sizeof(float));
    for (int64_t k = 0; k < SAMPLES * each; k++) {
        if (index)
            ((int32_t *)s->data[i])[k] = (int32_t)(random_bits(1 + (uint64_t)i, (uint64_t)k) % 4);
        else
            values[k] = (float)(random_bits(9, (uint64_t)k) % 1000) / 500 - 1;
    }
    s->tensors[s->batch.n_tensors++] =
        (struct wk_batch_tensor){input->name, s->data[i], input->type, each};
    if (!strcmp(input->name, "tokens"))
        s->batch.tokens = s->data[i];
    if (!strcmp(input->name, "targets"))
        s->batch.targets = s->data[i];
}

static struct subject *subject_new(int kind, enum wk_dtype type)
{
    struct subject *s = calloc(1, sizeof(*s));
    s->model = model_of(kind);
    size_t count = s->model->count;
    s->batch = (struct wk_batch){.samples = SAMPLES, .length = s->model->context};
    s->batch.tensors = s->tensors;
    const struct wk_graph *graph = graph_model_of(s->model)->graph;
    CHECK(graph->n_inputs == 2);
    for (int i = 0; i < 2; i++)
        fill_input(s, graph->inputs[i], i);
    s->params = calloc(count, sizeof(float));
    s->grads = calloc(count, sizeof(float));
    s->low = calloc(count, sizeof(uint16_t));
    CHECK(model_bind(s->model, s->params, s->grads) == 0);
    CHECK(wk_model_init(s->model, 3) == 0);
    if (type != WK_F32)
        model_write_low(s->model, type, s->low);
    CHECK(model_set_compute(s->model, type, s->low, NULL) == 0);
    return s;
}

static void subject_free(struct subject *s)
{
    wk_model_free(s->model);
    free(s->data[0]);
    free(s->data[1]);
    free(s->params);
    free(s->grads);
    free(s->low);
    free(s);
}

/* Two passes, whose gradients are added; the loss of the second. */
static double train(struct subject *s)
{
    double loss = 0;
    memset(s->grads, 0, s->model->count * sizeof(float));
    for (int pass = 0; pass < 2; pass++) {
        s->batch.position = 10 * pass;
        CHECK(model_forward(s->model, &s->batch, &loss, NULL) == 0);
        CHECK(model_backward(s->model, 1, NULL) == 0);
    }
    return loss;
}

/* The plan of its training pass as it is set now; NULL if there is none, with the sentence. */
static const struct plan *plan_of(struct subject *s, struct error *err)
{
    struct graph_model *m = graph_model_of(s->model);
    struct trace_options trace = {.trains = true, .drops = s->model->dropout > 0};
    struct sizes sizes = {SAMPLES, m->graph->uses_length ? s->batch.length : 1};
    struct plan *plan = NULL;
    int rc = pass_plan(m, &trace, &sizes, &plan, err);
    CHECK(rc == 0 || rc == WK_ENOMEM);
    return plan;
}

static int64_t region_of(struct subject *s, enum wk_recompute policy, int64_t bytes)
{
    struct error err = {0};
    CHECK(wk_model_recompute_by(s->model, policy, bytes) == 0);
    const struct plan *plan = plan_of(s, &err);
    return plan ? (int64_t)plan->region_bytes : -1;
}

static void expect_same(struct subject *s, const float *grads, double loss, const char *what)
{
    double again = train(s);
    bool same = memcmp(&again, &loss, sizeof(loss)) == 0 &&
                memcmp(s->grads, grads, s->model->count * sizeof(float)) == 0;
    if (!same)
        fprintf(stderr, "%s: other bits\n", what);
    CHECK(same);
}

/* The bits of no recomputation, under every policy. */
static void check_bits(int kind, enum wk_dtype type)
{
    struct subject *s = subject_new(kind, type);
    int64_t all = region_of(s, WK_RECOMPUTE_NONE, 0);
    double loss = train(s);
    float *grads = malloc(s->model->count * sizeof(float));
    memcpy(grads, s->grads, s->model->count * sizeof(float));
    int passes = 0;
    for (int policy = WK_RECOMPUTE_BLOCKS; policy <= WK_RECOMPUTE_OPERATIONS; policy++) {
        CHECK(region_of(s, (enum wk_recompute)policy, 0) > 0);
        expect_same(s, grads, loss, name_of(kind));
    }
    for (int i = 0; i < BUDGETS; i++) {
        if (region_of(s, WK_RECOMPUTE_WITHIN, all * (BUDGETS - i) / BUDGETS) < 0)
            break;
        expect_same(s, grads, loss, name_of(kind));
        passes++;
    }
    CHECK(passes > 0);
    free(grads);
    subject_free(s);
}

static void no_policy_changes_a_bit(void)
{
    for (int kind = 0; kind < KINDS; kind++) {
        check_bits(kind, WK_F32);
        check_bits(kind, WK_BF16);
    }
}

/* From all that nothing needs again to less than the least, in small steps. */
static void a_smaller_budget_is_kept_with_more_computed_again(void)
{
    for (int kind = 0; kind < KINDS; kind++) {
        struct subject *s = subject_new(kind, WK_F32);
        int64_t all = region_of(s, WK_RECOMPUTE_NONE, 0), before = all, bytes = all;
        double flop = 0;
        const struct plan *plan;
        struct error err = {0};
        for (; bytes > 0; bytes -= all / 100) {
            CHECK(wk_model_recompute_by(s->model, WK_RECOMPUTE_WITHIN, bytes) == 0);
            plan = plan_of(s, &err);
            if (!plan)
                break;
            CHECK((int64_t)plan->region_bytes <= bytes && (int64_t)plan->region_bytes <= before);
            CHECK(plan->again_flop >= flop);
            CHECK(bytes < all || !(plan->again_flop > 0));
            before = (int64_t)plan->region_bytes;
            flop = plan->again_flop;
        }
        CHECK(bytes > 0 && strstr(err.text, "at the least") && strstr(err.text, "3 samples"));
        printf("%s: %lld bytes, at the least %lld\n", name_of(kind), (long long)all,
               (long long)before);
        CHECK(kind >= MLP || before < all * 3 / 4); /* logits and the embeddings' stream stay */
        subject_free(s);
    }
}

/* A plan of its own, with values in the host's memory or without; NULL: it cannot be within. */
static struct plan *plan_apart(struct subject *s, int64_t samples, bool offload, int64_t within)
{
    struct graph_model *m = graph_model_of(s->model);
    struct plan *plan = NULL;
    const struct plan_options options = {
        .trace = {.trains = true, .drops = s->model->dropout > 0},
        .sizes = {samples, m->graph->uses_length ? s->batch.length : 1},
        .compute = WK_F32,
        .recompute = within ? WK_RECOMPUTE_WITHIN : WK_RECOMPUTE_NONE,
        .within = within,
        .offload = offload};
    int rc = plan_new(m->graph, &options, m->blocks, &plan, NULL);
    CHECK(rc == 0 || rc == WK_ENOMEM);
    return plan;
}

/* Copies out are of the forward pass, those back of the other one. Few are on their way at a time.
 * Each piece has a place of its own on the host. Returns how many were on their way. */
static int check_copies(const struct plan *plan)
{
    size_t bytes = 0;
    int most = 0;
    int begun[2] = {0, 0}, done[2] = {0, 0};
    for (int i = 0; i < plan->n_launches; i++) {
        const struct launch *launch = &plan->launches[i];
        bool back = launch->kind == LAUNCH_BACK || launch->kind == LAUNCH_BACK_DONE;
        bool ends = launch->kind == LAUNCH_OUT_DONE || launch->kind == LAUNCH_BACK_DONE;
        if (!launch_is_host_copy(launch))
            continue;
        int *count = ends ? &done[back] : &begun[back];
        CHECK(launch->index == *count % LAUNCH_TURNS && back == (i >= plan->n_forward));
        (*count)++;
        CHECK(done[back] <= begun[back] && begun[back] - done[back] <= LAUNCH_TURNS);
        most = begun[back] - done[back] > most ? begun[back] - done[back] : most;
        if (launch->kind == LAUNCH_OUT) {
            const struct plan_value *place = &plan->values[launch->out[0]];
            CHECK(place->kind == VALUE_IN_HOST && place->offset == bytes);
            bytes += layout_rounded((size_t)place->count);
        }
    }
    CHECK(bytes == plan->host_bytes);
    for (int back = 0; back < 2; back++)
        CHECK(begun[back] == plan->n_offloaded && done[back] == plan->n_offloaded);
    return most;
}

/* With bytes that are enough without copies there are none. Below that nothing is computed again
 * while copies are enough. */
static void values_in_the_hosts_memory_come_before_recomputation(void)
{
    for (int kind = 0; kind < KINDS; kind++) {
        struct subject *s = subject_new(kind, WK_F32);
        struct plan *all = plan_apart(s, SAMPLES, false, 0),
                    *least = plan_apart(s, SAMPLES, true, 0);
        size_t most = all->region_bytes, moved = least->region_bytes;
        (void)check_copies(all);
        (void)check_copies(least);
        printf("%s: %d pieces, %zu of %zu bytes, %zu on the host\n", name_of(kind),
               least->n_offloaded, moved, most, least->host_bytes);
        CHECK(!all->n_offloaded && (least->n_offloaded ? moved < most : moved == most));
        CHECK(kind > LLAMA || least->n_offloaded > LAYERS);
        for (size_t bytes = most; bytes >= moved; bytes -= (most - moved) / 16 + 1) {
            struct plan *within = plan_apart(s, SAMPLES, true, (int64_t)bytes);
            (void)check_copies(within);
            CHECK(within->region_bytes <= bytes && !(within->again_flop > 0));
            CHECK((bytes == most) == !within->n_offloaded);
            CHECK(within->n_offloaded <= least->n_offloaded);
            plan_free(within);
        }
        struct plan *below = plan_apart(s, SAMPLES, true, (int64_t)moved * 19 / 20);
        CHECK(!below || below->again_flop > 0);
        plan_free(below);
        plan_free(all);
        plan_free(least);
        subject_free(s);
    }
}

/* Where the bus needs more time than the kernels, copies wait for each other. */
static void copies_are_as_many_as_there_are_turns(void)
{
    enum { MANY = 1 << 14 };
    for (int kind = 0; kind <= MLP; kind++) {
        struct subject *s = subject_new(kind, WK_F32);
        struct plan *plan = plan_apart(s, MANY, true, 0);
        CHECK(check_copies(plan) == LAUNCH_TURNS);
        plan_free(plan);
        subject_free(s);
    }
}

static double forward_flop(const struct plan *plan)
{
    double flop = 0;
    for (int i = 0; i < plan->n_forward; i++) {
        if (plan->launches[i].kind == LAUNCH_FORWARD)
            flop += node_cost(plan->launches[i].node, &plan->options.sizes, false).flop;
    }
    return flop;
}

static int launches_again(const struct plan *plan, const char *row)
{
    int count = 0;
    for (int i = 0; i < plan->n_launches; i++)
        count += plan->launches[i].again && !strcmp(plan->launches[i].node->row->name, row);
    return count;
}

/* Products are not among them; a transformer's norms and activations are. */
static void cheap_operations_are_cheap(void)
{
    struct subject *s = subject_new(GPT, WK_F32);
    int64_t all = region_of(s, WK_RECOMPUTE_NONE, 0);
    int64_t cheap = region_of(s, WK_RECOMPUTE_OPERATIONS, 0);
    const struct plan *plan = plan_of(s, NULL);
    CHECK(cheap < all * 9 / 10);
    printf("cheap operations: %.3f of the forward pass, %.3f of its memory\n",
           plan->again_flop / forward_flop(plan), (double)cheap / (double)all);
    CHECK(plan->again_flop < 0.3 * forward_flop(plan)); /* products are of 16 terms only */
    CHECK(launches_again(plan, "linear") == 0 && launches_again(plan, "attention") == 0);
    CHECK(launches_again(plan, "gelu") == LAYERS);
    CHECK(launches_again(plan, "layer_norm") >= 2 * LAYERS);
    CHECK(region_of(s, WK_RECOMPUTE_BLOCKS, 0) < cheap);
    plan = plan_of(s, NULL);
    CHECK(launches_again(plan, "attention") == LAYERS); /* all blocks but the last, the head */
    subject_free(s);
}

/* The line of the table about the first operation of this name. */
static const char *line_about(const char *table, const char *row)
{
    static char line[512];
    char begin[64];
    snprintf(begin, sizeof(begin), "\n  %s ", row);
    const char *at = strstr(table, begin);
    CHECK(at);
    snprintf(line, sizeof(line), "%.*s", (int)strcspn(at + 1, "\n"), at + 1);
    return line;
}

static void a_table_has_types_and_what_is_computed_again(void)
{
    struct wk_graph *graph = one_block();
    char *table = NULL;
    size_t bytes;
    FILE *out = open_memstream(&table, &bytes);
    struct wk_graph_pass pass = {SAMPLES, 1, WK_BF16, WK_RECOMPUTE_OPERATIONS, 0};
    CHECK(out && wk_graph_print_pass(graph, &pass, out) == 0 && fclose(out) == 0);
    CHECK(strstr(table, "a training pass holds ") && strstr(table, "alone, a forward pass of 3"));
    CHECK(strstr(line_about(table, "linear"), "[samples, 40] bf16") &&
          strstr(line_about(table, "linear"), " bf16  "));
    CHECK(strstr(line_about(table, "layer_norm"), "again"));
    CHECK(strstr(line_about(table, "dropout"), "share 0.25"));
    CHECK(!strstr(line_about(table, "linear"), "again"));
    free(table);
    wk_graph_free(graph);
}

static void what_makes_no_sense_is_refused(void)
{
    struct wk_model *model = model_of(GPT);
    CHECK(wk_model_recompute_by(model, WK_RECOMPUTE_WITHIN, 0) == WK_EINVAL);
    CHECK(wk_model_recompute_by(model, (enum wk_recompute)9, 1) == WK_EINVAL);
    CHECK(wk_model_recompute_by(NULL, WK_RECOMPUTE_NONE, 0) == WK_EINVAL);
    CHECK(model->recompute == WK_RECOMPUTE_NONE);
    wk_model_free(model);
}

int main(int argc, char **argv)
{
    static const struct check_case cases[] = {
        CHECK_CASE(no_policy_changes_a_bit),
        CHECK_CASE(a_smaller_budget_is_kept_with_more_computed_again),
        CHECK_CASE(values_in_the_hosts_memory_come_before_recomputation),
        CHECK_CASE(copies_are_as_many_as_there_are_turns),
        CHECK_CASE(cheap_operations_are_cheap),
        CHECK_CASE(a_table_has_types_and_what_is_computed_again),
        CHECK_CASE(what_makes_no_sense_is_refused),
        {0},
    };
    return check_all(cases, argc, argv);
}
