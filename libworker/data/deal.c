/* Which samples go to which rank, as Accelerate deals them (worker/data.h). */
#include <worker/data.h>
#include <worker/error.h>

#include "common/base/error.h"

/* A group is what all ranks get in one round: `batch` elements each, in rank order. Only the last
 * one may be short. */
struct groups {
    int64_t batch; /* of one rank */
    int64_t size;  /* of all */
    int64_t full;  /* groups with all their elements */
    int64_t rest;  /* elements of the batch after them */
};

static struct groups groups_of(const struct wk_deal *deal, int world)
{
    struct groups g = {.batch = deal->split_batches ? deal->batch / world : deal->batch};
    g.size = g.batch * world;
    g.full = g.size ? deal->samples / g.size : 0;
    g.rest = g.size && !deal->drop_last ? deal->samples % g.size : 0;
    return g;
}

static int64_t in_group(const struct wk_deal *deal, const struct groups *g, int rank, int64_t k)
{
    if (k < g->full)
        return g->batch;
    if (k > g->full || !g->rest)
        return 0;
    if (deal->even_batches)
        return g->batch;
    int64_t left = g->rest - g->batch * rank;
    return left < 0 ? 0 : left < g->batch ? left : g->batch;
}

int wk_deal_check(const struct wk_deal *deal, int world)
{
    struct error err = {0};
    if (world < 1 || deal->samples < 0 || deal->batch < 1)
        (void)error_set(&err, WK_EINVAL, "%lld samples in batches of %lld for %d ranks",
                        (long long)deal->samples, (long long)deal->batch, world);
    else if (deal->split_batches && deal->batch % world)
        (void)error_set(&err, WK_EINVAL, "%d ranks cannot share a batch of %lld evenly", world,
                        (long long)deal->batch);
    return err.code ? error_keep(&err) : 0;
}

int64_t wk_deal_batches(const struct wk_deal *deal, int rank, int world)
{
    struct groups g = groups_of(deal, world);
    return g.full + (in_group(deal, &g, rank, g.full) > 0);
}

int64_t wk_deal_batch(const struct wk_deal *deal, int rank, int world, int64_t k,
                      int64_t *ret_indices)
{
    struct groups g = groups_of(deal, world);
    int64_t count = in_group(deal, &g, rank, k), held = k < g.full ? g.size : g.rest;
    int64_t cycle =
        deal->samples < g.size ? deal->samples : g.size; /* what fills up a short group */
    for (int64_t i = 0; i < count; i++) {
        int64_t place = g.batch * rank + i;
        ret_indices[i] = place < held ? k * g.size + place : (place - held) % cycle;
    }
    return count;
}

int64_t wk_deal_real(const struct wk_deal *deal, int world, int64_t k)
{
    struct groups g = groups_of(deal, world);
    return k < g.full ? g.size : k == g.full ? g.rest : 0;
}
