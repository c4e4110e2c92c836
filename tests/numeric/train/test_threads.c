/* Each way to spread a model once, small enough for the thread sanitizer: the program's thread, the
 * progress threads of the communicator and its groups, and all ranks in one process. And how many
 * gathers fsdp has on their way at once, which the linker's wraps count.
 */
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include <worker/comm.h>
#include <worker/parallel.h>

#include "libworker/nn/model.h"
#include "libworker/nn/param.h"
#include "tests/lib/check.h"
#include "tests/lib/rounding.h"
#include "tests/numeric/train/toy.h"
#include "tests/numeric/train/variant.h"

enum { WORKS_MAX = 64, BLOCKS = 4 };

/* Gathers that this rank has started and not waited for. */
static __thread struct wk_work *under_way[WORKS_MAX];
static __thread int n_under_way;
static __thread bool reading; /* everything is gathered for the program to read */
static int most_under_way;    /* of any rank; __atomic */

int __real_wk_all_gather(struct wk_comm *comm, const void *in, void *out, size_t count,
                         enum wk_dtype dtype, struct wk_work **ret_work);
int __wrap_wk_all_gather(struct wk_comm *comm, const void *in, void *out, size_t count,
                         enum wk_dtype dtype, struct wk_work **ret_work);
int __real_wk_gather_parameters(struct wk_model *model);
int __wrap_wk_gather_parameters(struct wk_model *model);
int __real_wk_wait(struct wk_work *work);
int __wrap_wk_wait(struct wk_work *work);

int __wrap_wk_all_gather(struct wk_comm *comm, const void *in, void *out, size_t count,
                         enum wk_dtype dtype, struct wk_work **ret_work)
{
    int rc = __real_wk_all_gather(comm, in, out, count, dtype, ret_work);
    if (rc || !ret_work || reading)
        return rc;
    CHECK(n_under_way < WORKS_MAX);
    under_way[n_under_way++] = *ret_work;
    int most = __atomic_load_n(&most_under_way, __ATOMIC_RELAXED);
    while (n_under_way > most &&
           !__atomic_compare_exchange_n(&most_under_way, &most, n_under_way, false,
                                        __ATOMIC_RELAXED, __ATOMIC_RELAXED))
        continue;
    return rc;
}

int __wrap_wk_gather_parameters(struct wk_model *model)
{
    reading = true;
    int rc = __real_wk_gather_parameters(model);
    reading = false;
    return rc;
}

int __wrap_wk_wait(struct wk_work *work)
{
    for (int i = 0; i < n_under_way; i++)
        if (under_way[i] == work)
            under_way[i] = under_way[--n_under_way];
    return __real_wk_wait(work);
}

/* Weights from elsewhere, and how often any rank read one of them. */
static bool from_elsewhere; /* set while no rank runs */
static int reads;           /* __atomic */

int __real_wk_gpt_new(const struct wk_gpt_config *config, struct wk_model **ret_model);
int __wrap_wk_gpt_new(const struct wk_gpt_config *config, struct wk_model **ret_model);

static int read_weight(void *arg, const struct param *param, int index, struct error *err)
{
    (void)arg;
    (void)index;
    (void)err;
    __atomic_fetch_add(&reads, 1, __ATOMIC_RELAXED);
    param_fill(param, 99);
    return 0;
}

int __wrap_wk_gpt_new(const struct wk_gpt_config *config, struct wk_model **ret_model)
{
    int rc = __real_wk_gpt_new(config, ret_model);
    if (!rc && from_elsewhere)
        model_set_values(*ret_model, &(struct model_values){.fill = read_weight});
    return rc;
}

static struct outcome one, other;

static void every_strategy_once(void)
{
    static const struct variant variants[] = {
        {.strategy = "ddp", .ranks = 3},
        {.strategy = "zero1", .ranks = 3, .accumulation = "2"},
        {.strategy = "zero2", .ranks = 2, .accumulation = "2"},
        {.strategy = "fsdp", .ranks = 3, .prefetch = "2"},
        {.strategy = "zero2", .ranks = 4, .replicas = "2"},
        {.strategy = "fsdp", .ranks = 4, .replicas = "2"},
        {.strategy = "ddp", .ranks = 2, .hook = "fp16"},
    };
    for (size_t i = 0; i < sizeof(variants) / sizeof(variants[0]); i++) {
        struct variant alone = {
            .strategy = "ddp", .ranks = 1, .accumulation = variants[i].accumulation};
        variant_run(&alone, &one);
        variant_run(&variants[i], &other);
        double most = variants[i].hook ? 2 * ROUNDING_F16 : toy_bounds(VARIANT_STEPS).losses;
        CHECK(outcome_apart(&one, &other).losses < most);
    }
}

static void no_more_gathers_are_under_way_than_asked_for(void)
{
    for (int prefetch = 0; prefetch <= 4; prefetch++) {
        char number[8];
        snprintf(number, sizeof(number), "%d", prefetch);
        struct variant v = {.strategy = "fsdp", .ranks = 2, .prefetch = number};
        __atomic_store_n(&most_under_way, 0, __ATOMIC_RELAXED);
        variant_run(&v, &other);
        int most = __atomic_load_n(&most_under_way, __ATOMIC_RELAXED);
        printf("prefetch %d: at most %d under way\n", prefetch, most);
        CHECK(most == (1 + prefetch < BLOCKS ? 1 + prefetch : BLOCKS));
    }
}

/* Products in bf16 are a library's, whose locks ThreadSanitizer does not see. */
#ifdef __SANITIZE_THREAD__
enum { PRECISIONS = 1 };
#else
enum { PRECISIONS = 2 };
#endif

static void one_rank_may_read_for_all(void)
{
    static const char *const strategies[] = {"ddp", "zero1", "zero2", "fsdp"};
    static struct outcome seeded;
    variant_run(&(struct variant){.strategy = "ddp", .ranks = 2}, &seeded);
    from_elsewhere = true;
    for (int s = 0; s < 4 * PRECISIONS; s++)
        for (int replicas = 1; replicas <= (s % 4 ? 2 : 1); replicas++) {
            struct variant v = {.strategy = strategies[s % 4], .ranks = 2 * replicas};
            v.precision = s < 4 ? NULL : "bf16";
            v.replicas = replicas == 2 ? "2" : NULL;
            reads = 0;
            variant_run(&v, &one);
            int by_all = reads;
            reads = 0;
            v.one_rank_reads = "true";
            variant_run(&v, &other);
            CHECK(outcome_same_bits(&one, &other) && !outcome_same_bits(&one, &seeded));
            CHECK(reads > 0 && by_all == v.ranks * reads);
        }
    from_elsewhere = false;
}

int main(int argc, char **argv)
{
    static const struct check_case cases[] = {
        CHECK_CASE(every_strategy_once),
        CHECK_CASE(one_rank_may_read_for_all),
        CHECK_CASE(no_more_gathers_are_under_way_than_asked_for),
        {0},
    };
    return check_all(cases, argc, argv);
}
