/* What ranks do together beside training: sections in order, triggers, metrics without padding. */
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/lib/check.h"
#include "tests/lib/tmpdir.h"
#include "tests/numeric/train/fake_session.h"
#include "tests/numeric/train/toy.h"

enum { RANKS = 4, SAMPLES = 37 };

struct rank {
    struct session *session;
    pthread_t thread;
    int status;
};

static atomic_int filled, seen_before;
static struct tmpdir out;

static const char *nothing(void *arg, const char *name)
{
    (void)arg;
    (void)name;
    return NULL;
}

/* Samples carry their own number as their first token. */
static void metrics(struct wk_context *ctx, struct wk_loader *loader)
{
    struct wk_batch batch;
    int64_t next = 0;
    while (wk_next(loader, &batch)) {
        float values[64], all[128];
        for (int64_t i = 0; i < batch.samples; i++) {
            values[2 * i] = (float)batch.tokens[i * batch.length];
            values[2 * i + 1] = (float)wk_rank(ctx);
        }
        memset(all, 0xff, sizeof(all));
        CHECK(wk_gather_for_metrics(ctx, &batch, values, 2, all) == 0);
        for (int64_t i = 0; i < batch.global_samples; i++)
            CHECK(all[2 * i] == (float)next++);
    }
    CHECK(next == SAMPLES);
}

/* All call, the first rank writes. */
static void save(struct wk_context *ctx, struct wk_model *model)
{
    char path[sizeof(out.path) + 16];
    (void)snprintf(path, sizeof(path), "%s/of-%d", out.path, wk_rank(ctx));
    CHECK(wk_model_save(ctx, model, path, NULL) == 0);
    CHECK((access(path, F_OK) == 0) == (wk_rank(ctx) == 0));
}

static void *run(void *arg)
{
    struct rank *rank = arg;
    struct environment environment = {nothing, NULL};
    struct context_seams seams = {
        .environment = &environment, .session = rank->session, .quiet = true};
    struct wk_context *ctx;
    struct wk_source *source;
    struct wk_loader *loader;
    struct wk_model *model;
    char text[SAMPLES + 1];
    for (int i = 0; i <= SAMPLES; i++)
        text[i] = (char)i;
    CHECK(context_open(NULL, &seams, &ctx) == 0);
    CHECK(wk_source_bytes(ctx, text, sizeof(text), &source) == 0);
    struct wk_loader_options options = {.source = source,
                                        .length = 1,
                                        .batch = 10,
                                        .epochs = 1,
                                        .sequential = true,
                                        .evaluation = true};
    CHECK(wk_loader_new(ctx, &options, &loader) == 0);
    struct wk_buffer buffer = {.name = "w", .dims = 1, .shape = {3}};
    CHECK(wk_custom_new(&buffer, 1, &model) == 0);
    CHECK(wk_prepare_all(ctx, WK_OBJECT(model), WK_OBJECT(loader)) == 0);

    wk_main_first_begin(ctx, false);
    if (wk_is_main(ctx))
        atomic_store(&filled, 1);
    else
        atomic_fetch_add(&seen_before, atomic_load(&filled));
    wk_main_first_end(ctx, false);
    CHECK(wk_is_last(ctx) == (wk_rank(ctx) == RANKS - 1));

    metrics(ctx, loader);

    CHECK(!wk_triggered(ctx));
    if (wk_rank(ctx) == 2)
        wk_trigger(ctx);
    CHECK(wk_triggered(ctx));
    CHECK(!wk_triggered(ctx));

    static const int64_t counts[] = {5, 4, 4, 4}, firsts[] = {0, 5, 9, 13};
    int64_t first, count;
    wk_split(ctx, 17, false, &first, &count);
    CHECK(first == firsts[wk_rank(ctx)] && count == counts[wk_rank(ctx)]);
    wk_split(ctx, 17, true, &first, &count);
    CHECK(first == firsts[wk_rank(ctx)] && count == 5);
    save(ctx, model);
    CHECK(wk_wait_for_all(ctx) == 0);
    rank->status = wk_close(ctx);
    wk_loader_free(loader);
    wk_source_free(source);
    wk_model_free(model);
    return NULL;
}

static void ranks_wait_trigger_and_gather(void)
{
    static const int workers[] = {0, 1, 2, 3};
    struct rank ranks[RANKS];
    struct fake_cluster cluster;
    out = tmpdir_make();
    fake_init(&cluster);
    fake_form(&cluster, workers, RANKS);
    for (int i = 0; i < RANKS; i++) {
        ranks[i].session = fake_session(&cluster, i);
        pthread_create(&ranks[i].thread, NULL, run, &ranks[i]);
    }
    for (int i = 0; i < RANKS; i++) {
        pthread_join(ranks[i].thread, NULL);
        CHECK(ranks[i].status == 0);
    }
    CHECK(atomic_load(&seen_before) == RANKS - 1);
    fake_fini(&cluster);
    tmpdir_remove(&out);
}

int main(int argc, char **argv)
{
    static const struct check_case cases[] = {
        CHECK_CASE(ranks_wait_trigger_and_gather),
        {0},
    };
    return check_all(cases, argc, argv);
}
