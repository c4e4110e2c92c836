/* A rank without memory for what precedes a collective: all ranks hear of it at once, instead of
 * waiting in that collective until the rank's process has ended. No rank closes its context before
 * all have returned.
 */
#include <string.h>

#include "libworker/step/member.h"
#include "tests/lib/check.h"
#include "tests/numeric/train/ranked.h"

enum {
    RANKS = 3,
    SHORT_OF = 1, /* the rank */
    BUFFERS = 5,
    STATES = 2,
    ARRAYS = 1 + STATES * BUFFERS, /* of the state: a number that no other allocation has */
    WIDTH = 7,
};

static _Thread_local size_t scarce_count, scarce_size; /* size 0: any */
static _Thread_local int refused;

void *__real_calloc(size_t count, size_t size);
void *__wrap_calloc(size_t count, size_t size);
void *__wrap_calloc(size_t count, size_t size)
{
    bool refuse = scarce_count && count == scarce_count && (!scarce_size || size == scarce_size);
    refused += refuse;
    return refuse ? NULL : __real_calloc(count, size);
}

struct scarcity {
    size_t count, size;
    bool of_metrics; /* else of wk_prepare */
    const char *what;
};

struct rank {
    struct ranked place;
    int rank, port, status;
    const struct scarcity *scarcity;
    pthread_barrier_t *all_returned;
    char error[256];
};

static void lacks(const struct rank *r, bool now)
{
    scarce_count = now && r->rank == SHORT_OF ? r->scarcity->count : 0;
    scarce_size = r->scarcity->size;
}

static void prepare(struct wk_context *ctx, struct wk_source **source, struct wk_loader **ret)
{
    static const char text[] = "in the beginning was the word, and the word was with us, all day";
    static const struct wk_buffer buffers[BUFFERS] = {{.name = "a", .dims = 1, .shape = {3}},
                                                      {.name = "b", .dims = 1, .shape = {3}},
                                                      {.name = "c", .dims = 1, .shape = {3}},
                                                      {.name = "d", .dims = 1, .shape = {3}},
                                                      {.name = "e", .dims = 1, .shape = {3}}};
    CHECK(wk_source_bytes(ctx, text, sizeof(text), source) == 0);
    *ret = wk_loader_in(ctx, NULL,
                        &(struct wk_loader_options){.source = *source, .length = 4, .batch = 6});
    CHECK(wk_custom_in(ctx, &(struct wk_custom_options){.count = BUFFERS, .buffers = buffers}));
    CHECK(wk_adamw_in(ctx, &(struct wk_adamw_options){.rate = 1}));
}

static void run_short(struct rank *r, struct wk_context *ctx)
{
    struct wk_source *source;
    struct wk_loader *loader;
    struct wk_batch batch;
    prepare(ctx, &source, &loader);
    lacks(r, !r->scarcity->of_metrics);
    r->status = wk_prepare(ctx, NULL, 0);
    if (r->scarcity->of_metrics) {
        CHECK(r->status == 0);
        CHECK(wk_next(loader, &batch));
        float values[6 * WIDTH] = {0}, all[6 * WIDTH];
        lacks(r, true);
        r->status = wk_gather_for_metrics(ctx, &batch, values, WIDTH, all);
    }
    lacks(r, false);
    CHECK((refused > 0) == (r->rank == SHORT_OF));
    (void)snprintf(r->error, sizeof(r->error), "%s", wk_last_error(ctx));
    (void)pthread_barrier_wait(r->all_returned);
    wk_close(ctx);
    wk_source_free(source);
}

static void *rank_thread(void *arg)
{
    struct rank *r = arg;
    struct wk_context *ctx;
    ranked_init(&r->place, r->rank, RANKS, r->port);
    struct context_seams seams = {.environment = &r->place.environment, .quiet = true};
    CHECK(context_open(NULL, &seams, &ctx) == 0);
    run_short(r, ctx);
    return NULL;
}

static void all_hear_of(const struct scarcity *scarcity)
{
    struct rank ranks[RANKS] = {0};
    pthread_t threads[RANKS];
    pthread_barrier_t all_returned;
    int port = ranked_port();
    CHECK(pthread_barrier_init(&all_returned, NULL, RANKS) == 0);
    for (int i = 0; i < RANKS; i++) {
        ranks[i].rank = i;
        ranks[i].port = port;
        ranks[i].scarcity = scarcity;
        ranks[i].all_returned = &all_returned;
        CHECK(pthread_create(&threads[i], NULL, rank_thread, &ranks[i]) == 0);
    }
    for (int i = 0; i < RANKS; i++)
        pthread_join(threads[i], NULL);
    pthread_barrier_destroy(&all_returned);
    for (int i = 0; i < RANKS; i++) {
        printf("rank %d: %d %s\n", i, ranks[i].status, ranks[i].error);
        CHECK(ranks[i].status == WK_ENOMEM);
        CHECK(strstr(ranks[i].error, scarcity->what));
        CHECK(!strstr(ranks[i].error, "on another rank") == (i == SHORT_OF));
    }
}

static void comparing_the_members(void)
{
    all_hear_of(&(struct scarcity){
        .count = RANKS, .size = sizeof(struct member), .what = "to compare the members"});
}

static void comparing_cpus(void)
{
    all_hear_of(&(struct scarcity){
        .count = RANKS, .size = sizeof(int64_t), .what = "to compare the ranks' CPUs"});
}

static void taking_over_the_state(void)
{
    all_hear_of(&(struct scarcity){.count = ARRAYS, .what = "to take over the state"});
}

static void gathering_metrics(void)
{
    all_hear_of(&(struct scarcity){.count = (size_t)2 * WIDTH * RANKS + 1,
                                   .size = sizeof(float),
                                   .of_metrics = true,
                                   .what = "to gather metrics"});
}

int main(int argc, char **argv)
{
    static const struct check_case cases[] = {
        CHECK_CASE(comparing_the_members),
        CHECK_CASE(comparing_cpus),
        CHECK_CASE(taking_over_the_state),
        CHECK_CASE(gathering_metrics),
        {0},
    };
    return check_all(cases, argc, argv);
}
