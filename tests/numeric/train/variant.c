#include <math.h>
#include <stdio.h>
#include <string.h>

#include "tests/lib/check.h"
#include "tests/numeric/train/fake_session.h"
#include "tests/numeric/train/toy.h"
#include "tests/numeric/train/variant.h"

static void set_if(struct toy *toy, const char *name, const char *value)
{
    if (value)
        toy_set(toy, name, value);
}

static void configure(struct toy *toy, const struct variant *v)
{
    toy->custom = v->custom;
    toy->borrowed = v->borrowed;
    toy->llama = v->llama;
    toy->narrow = v->narrow;
    toy->how = v->how;
    toy->by_block = v->by_block;
    toy->graph = v->graph;
    toy->rows = v->rows;
    toy->muon = v->muon;
    toy->batch = v->batch;
    toy->clip = v->no_clip ? -1 : 1;
    toy_set(toy, "total_steps", "12");
    toy_set(toy, "strategy", v->strategy);
    toy_set(toy, "gradient_accumulation_steps", v->accumulation ? v->accumulation : "1");
    toy_set(toy, "bucket_mib", v->bucket ? v->bucket : "0.02");
    toy_set(toy, "first_bucket_mib", v->bucket ? v->bucket : "0.01");
    set_if(toy, "mesh.dp_replicate", v->replicas);
    set_if(toy, "offload.dir", v->offload);
    set_if(toy, "ddp.hook", v->hook);
    set_if(toy, "one_rank_reads", v->one_rank_reads);
    set_if(toy, "offload.parameters", v->offload_parameters);
    set_if(toy, "fsdp.prefetch", v->prefetch);
    set_if(toy, "fsdp.reshard_after_forward", v->reshard);
    set_if(toy, "mixed_precision", v->precision);
    set_if(toy, "low_gradients", v->low_gradients);
    set_if(toy, "loss_scale.initial", v->scale);
    set_if(toy, "clip_grad_value", v->clip_value);
    set_if(toy, "stochastic_rounding", v->stochastic);
    set_if(toy, "recompute", v->recompute);
}

/* Ranks of one host sum and gather where the gradients and parameters lie. */
static bool looks_in_place(void *arg, struct wk_context *ctx)
{
    struct wk_comm_statistics statistics;
    wk_comm_statistics(wk_communicator(ctx), &statistics);
    *(bool *)arg = wk_world(ctx) == 1 || statistics.in_place > 0;
    return false;
}

static bool gathers_and_looks(void *arg, struct wk_context *ctx)
{
    CHECK(wk_gather_parameters(units_main(ctx)->model) == 0);
    return looks_in_place(arg, ctx);
}

void variant_run(const struct variant *v, struct outcome *ret)
{
    static bool in_place[VARIANT_RANKS_MAX];
    static const int workers[VARIANT_RANKS_MAX] = {0, 1, 2, 3};
    static struct toy toys[VARIANT_RANKS_MAX];
    static float weights[VARIANT_RANKS_MAX][VARIANT_WEIGHTS_MAX];
    pthread_t threads[VARIANT_RANKS_MAX];
    struct fake_cluster cluster;
    fake_init(&cluster);
    fake_form(&cluster, workers, v->ranks);
    memset(toys, 0, sizeof(toys));
    memset(weights, 0, sizeof(weights));
    for (int i = 0; i < v->ranks; i++) {
        toys[i].session = fake_session(&cluster, i);
        toys[i].weights = weights[i];
        toys[i].stepped = v->gathers ? gathers_and_looks : looks_in_place;
        toys[i].arg = &in_place[i];
        in_place[i] = false;
        configure(&toys[i], v);
        pthread_create(&threads[i], NULL, toy_thread, &toys[i]);
    }
    for (int i = 0; i < v->ranks; i++) {
        pthread_join(threads[i], NULL);
        if (toys[i].status)
            fprintf(stderr, "%s, rank %d of %d: %s\n%s", v->strategy, i, v->ranks, toys[i].error,
                    toys[i].notices);
        CHECK(toys[i].status == 0 && toys[i].exit_code == 0);
        /* Groups count for themselves; tiny models send little. */
        CHECK(in_place[i] || v->replicas || v->graph);
        CHECK(memcmp(toys[i].losses, toys[0].losses, sizeof(toys[0].losses)) == 0);
        CHECK(memcmp(toys[i].norms, toys[0].norms, sizeof(toys[0].norms)) == 0);
        CHECK(memcmp(weights[i], weights[0], sizeof(weights[0])) == 0);
        CHECK(toys[i].skipped == toys[0].skipped && toys[i].scale == toys[0].scale);
    }
    fake_fini(&cluster);
    memcpy(ret->losses, toys[0].losses, sizeof(ret->losses));
    memcpy(ret->norms, toys[0].norms, sizeof(ret->norms));
    memcpy(ret->weights, weights[0], sizeof(ret->weights));
    ret->skipped = toys[0].skipped;
    ret->scale = toys[0].scale;
}

struct apart outcome_apart(const struct outcome *a, const struct outcome *b)
{
    struct apart apart = {0};
    double sum = 0;
    int count = 1;
    for (int i = 1; i <= VARIANT_STEPS; i++) {
        double norm = fmax(1e-30, fabs((double)a->norms[i]));
        apart.losses = fmax(apart.losses, fabs(a->losses[i] - b->losses[i]) / fabs(a->losses[i]));
        apart.norms = fmax(apart.norms, fabs((double)(a->norms[i] - b->norms[i])) / norm);
    }
    for (int i = 0; i < VARIANT_WEIGHTS_MAX; i++) {
        double off = fabs((double)(a->weights[i] - b->weights[i]));
        apart.weights = fmax(apart.weights, off);
        sum += off;
        count = fabs((double)a->weights[i]) > 0 ? i + 1 : count; /* zeros follow the last one */
    }
    apart.mean_weight = sum / count;
    return apart;
}

bool outcome_same_bits(const struct outcome *a, const struct outcome *b)
{
    return !memcmp(a->losses, b->losses, sizeof(a->losses)) &&
           !memcmp(a->weights, b->weights, sizeof(a->weights));
}
