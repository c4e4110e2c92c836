/* What a search for the batch asks of the other ranks and of the process: a rank without memory to
 * ask refuses for all, and searches of two contexts at once leave the process' limit as it was.
 */
#include <string.h>
#include <sys/resource.h>

#include "libworker/tensor/memory_limit.h"
#include "tests/lib/check.h"
#include "tests/numeric/train/ranked.h"

enum { RANKS = 3, LENGTH = 4, BATCH = 6, BESIDE = 2, GROUP_BYTES = 1 << 30 };

static _Thread_local int scarce; /* that many members of arrays there is no memory for */
static _Thread_local int refused;
static _Thread_local int64_t group_bytes; /* left in its control group; 0: no limit */

void *__real_calloc(size_t count, size_t size);
void *__wrap_calloc(size_t count, size_t size);
void *__wrap_calloc(size_t count, size_t size)
{
    bool refuse = scarce && count == (size_t)scarce;
    refused += refuse;
    return refuse ? NULL : __real_calloc(count, size);
}

void __wrap_memory_limit_read(const char *root, struct memory_limit *ret);
void __wrap_memory_limit_read(const char *root, struct memory_limit *ret)
{
    (void)root;
    *ret = (struct memory_limit){.own = group_bytes ? group_bytes : MEMORY_UNLIMITED,
                                 .above = MEMORY_UNLIMITED};
}

struct searcher {
    struct ranked place;
    int rank, world, port;
    bool lacks; /* memory for one thing about each rank */
    struct wk_batch_search search;
    int status;
    char error[256];
};

static void search(struct searcher *s, struct wk_context *ctx)
{
    static const char text[] = "in the beginning was the word, and the word was with us";
    const struct wk_buffer buffer = {.name = "w", .dims = 1, .shape = {3}};
    struct wk_source *source;
    CHECK(wk_source_bytes(ctx, text, sizeof(text), &source) == 0);
    struct wk_loader *loader = wk_loader_in(
        ctx, NULL, &(struct wk_loader_options){.source = source, .length = LENGTH, .batch = BATCH});
    CHECK(wk_custom_in(ctx, &(struct wk_custom_options){.count = 1, .buffers = &buffer}));
    CHECK(wk_sgd_in(ctx, &(struct wk_sgd_options){.rate = 1}));
    CHECK(wk_prepare(ctx, NULL, 0) == 0);
    scarce = s->lacks ? s->world : 0;
    s->status = wk_find_batch(loader, &s->search, NULL);
    CHECK(!s->lacks || refused == 1);
    scarce = 0;
    (void)snprintf(s->error, sizeof(s->error), "%s", wk_last_error(ctx));
    wk_close(ctx);
    wk_source_free(source);
}

static void *search_thread(void *arg)
{
    struct searcher *s = arg;
    struct wk_context *ctx;
    group_bytes = GROUP_BYTES;
    ranked_init(&s->place, s->rank, s->world, s->port);
    struct context_seams seams = {.environment = &s->place.environment, .quiet = true};
    CHECK(context_open(NULL, &seams, &ctx) == 0);
    search(s, ctx);
    return NULL;
}

static void run(struct searcher *searchers, int n)
{
    pthread_t threads[RANKS];
    for (int i = 0; i < n; i++)
        CHECK(pthread_create(&threads[i], NULL, search_thread, &searchers[i]) == 0);
    for (int i = 0; i < n; i++)
        pthread_join(threads[i], NULL);
}

static int fits(void *arg, int64_t samples)
{
    (void)arg;
    (void)samples;
    return 0;
}

static void a_rank_without_memory_to_ask_the_others_refuses_for_all(void)
{
    struct searcher ranks[RANKS] = {0};
    int port = ranked_port();
    for (int i = 0; i < RANKS; i++) {
        ranks[i].rank = i;
        ranks[i].world = RANKS;
        ranks[i].port = port;
        ranks[i].search.attempt = fits;
        ranks[i].lacks = i == 1;
    }
    run(ranks, RANKS);
    for (int i = 0; i < RANKS; i++) {
        printf("rank %d: %s\n", i, ranks[i].error);
        CHECK(ranks[i].status == WK_ENOMEM);
        CHECK(strstr(ranks[i].error, i == 1 ? "no memory to ask" : "no memory on another rank"));
    }
}

static rlim_t limit_now(void)
{
    struct rlimit now;
    CHECK(getrlimit(RLIMIT_DATA, &now) == 0);
    return now.rlim_cur;
}

/* Context 0 searches while context 1 does, and ends first. */
static struct {
    pthread_barrier_t both, first_ended;
    rlim_t of_both, of_second;
} beside;

static int first_try(void *arg, int64_t samples)
{
    (void)arg;
    (void)samples;
    pthread_barrier_wait(&beside.both);
    return 0;
}

static int second_try(void *arg, int64_t samples)
{
    (void)arg;
    (void)samples;
    pthread_barrier_wait(&beside.both);
    beside.of_both = limit_now();
    pthread_barrier_wait(&beside.first_ended);
    beside.of_second = limit_now();
    return 0;
}

static void *first_context(void *arg)
{
    search_thread(arg);
    pthread_barrier_wait(&beside.first_ended);
    return NULL;
}

static void searches_at_once_leave_the_limit_as_it_was(void)
{
    struct searcher contexts[BESIDE] = {
        {.world = 1, .search = {.attempt = first_try}},
        {.world = 1, .search = {.attempt = second_try}},
    };
    pthread_t first;
    rlim_t before = limit_now();
    CHECK(pthread_barrier_init(&beside.both, NULL, BESIDE) == 0);
    CHECK(pthread_barrier_init(&beside.first_ended, NULL, BESIDE) == 0);
    CHECK(pthread_create(&first, NULL, first_context, &contexts[0]) == 0);
    run(&contexts[1], 1);
    pthread_join(first, NULL);
    for (int i = 0; i < BESIDE; i++)
        CHECK(contexts[i].status == 0);
    CHECK(beside.of_both < before);
    CHECK(beside.of_second == beside.of_both);
    CHECK(limit_now() == before);
}

int main(int argc, char **argv)
{
    static const struct check_case cases[] = {
        CHECK_CASE(a_rank_without_memory_to_ask_the_others_refuses_for_all),
        CHECK_CASE(searches_at_once_leave_the_limit_as_it_was),
        {0},
    };
    return check_all(cases, argc, argv);
}
