#include "coordinator/scheduler/gang.h"

#include <stdlib.h>
#include <string.h>

#include "common/base/assert.h"
#include "coordinator/scheduler/filter.h"

#define RACK_LABEL "rack"
_Static_assert(CLUSTER_NODES_MAX <= 0xffffff, "a node's index fits into its score");

struct order { /* what qsort_r's comparison needs */
    const struct view *view;
    const char *topology; /* "" = none */
};

/* NULL sorts before every value and is never chosen: a node without the label shares it with none.
 */
static const char *value_of(const struct order *order, int index)
{
    return node_label(order->view->nodes[index].node, order->topology);
}

static int compare(const void *a, const void *b, void *arg)
{
    const struct order *order = arg;
    int x = *(const int *)a, y = *(const int *)b;
    if (order->topology[0]) {
        const char *v = value_of(order, x), *w = value_of(order, y);
        int difference = v && w ? strcmp(v, w) : (v != NULL) - (w != NULL);
        if (difference)
            return difference;
    }
    int free_x = order->view->nodes[x].slots_free, free_y = order->view->nodes[y].slots_free;
    if (free_x != free_y)
        return free_x < free_y ? -1 : 1;
    return x < y ? -1 : x > y;
}

/* Start and size of the largest run of one value; the first of equals. */
static int largest_run(const struct order *order, const int *candidates, int count, int *ret_start)
{
    int best = 0;
    for (int start = 0; start < count;) {
        const char *value = value_of(order, candidates[start]);
        int end = start + 1;
        while (end < count && value && value_of(order, candidates[end]) &&
               strcmp(value, value_of(order, candidates[end])) == 0)
            end++;
        if (value && end - start > best) {
            best = end - start;
            *ret_start = start;
        }
        start = end;
    }
    return best;
}

int gang_largest_group(const struct view *view, const struct request *request, int *candidates,
                       int count)
{
    struct order order = {.view = view, .topology = request->spec->topology};
    if (!order.topology[0] || count == 0)
        return count;
    qsort_r(candidates, (size_t)count, sizeof *candidates, compare, &order);
    int start = 0;
    int size = largest_run(&order, candidates, count, &start);
    memmove(candidates, candidates + start, sizeof *candidates * (size_t)size);
    return size;
}

static void number_racks(struct view *view)
{
    struct strmap racks = {0};
    view->racks = 1; /* number 0: those that tell none */
    for (int i = 0; i < view->count; i++) {
        const char *rack = node_label(view->nodes[i].node, RACK_LABEL);
        if (!rack)
            continue;
        uintptr_t number = (uintptr_t)strmap_get(&racks, rack);
        if (number == 0) {
            number = (uintptr_t)view->racks++;
            insist(strmap_set(&racks, rack, (void *)number, NULL) == 0);
        }
        view->nodes[i].rack = (int)number;
    }
    strmap_fini(&racks);
}

/* Order of racks: the tightest that holds all that is wanted; if none does, the fullest first, so
 * that few racks are used. ret_rank[rack] = its place. */
static void rank_racks(const int *counts, int racks, int wanted, int *ret_rank)
{
    int best = -1;
    for (int r = 0; r < racks; r++)
        if (counts[r] >= wanted && (best < 0 || counts[r] < counts[best]))
            best = r;
    for (int r = 0; r < racks; r++) {
        ret_rank[r] = 1;
        for (int other = 0; other < racks && best < 0; other++)
            ret_rank[r] += counts[other] > counts[r] || (counts[other] == counts[r] && other < r);
    }
    if (best >= 0)
        ret_rank[best] = 0;
}

static uint64_t score(const struct view *view, const int *rank, int index)
{
    const struct view_node *node = &view->nodes[index];
    return (uint64_t)(rank ? rank[node->rack] : 0) << 40 | (uint64_t)node->slots_free << 24 |
           (uint64_t)index;
}

static int by_score(const void *a, const void *b)
{
    const uint64_t *x = a, *y = b;
    return *x < *y ? -1 : *x > *y;
}

/* The `wanted` lowest scores first. A few are found by looking, many by sorting. */
static void select_lowest(uint64_t *scores, int count, int wanted)
{
    enum { LOOK_MAX = 8 };
    if (wanted > LOOK_MAX) {
        qsort(scores, (size_t)count, sizeof *scores, by_score);
        return;
    }
    for (int i = 0; i < wanted && i < count; i++)
        for (int j = i + 1; j < count; j++)
            if (scores[j] < scores[i]) {
                uint64_t lower = scores[j];
                scores[j] = scores[i];
                scores[i] = lower;
            }
}

static void pack(struct view *view, int *candidates, int count, int wanted)
{
    uint64_t *scores = malloc(sizeof *scores * (size_t)count);
    int *counts = NULL;
    insist(scores);
    if (wanted > 1 && view->racks == 0)
        number_racks(view);
    if (wanted > 1 && view->racks > 1) {
        counts = calloc((size_t)view->racks * 2, sizeof *counts);
        insist(counts);
        for (int i = 0; i < count; i++)
            counts[view->nodes[candidates[i]].rack]++;
        rank_racks(counts, view->racks, wanted < count ? wanted : count, counts + view->racks);
    }
    for (int i = 0; i < count; i++)
        scores[i] = score(view, counts ? counts + view->racks : NULL, candidates[i]);
    select_lowest(scores, count, wanted);
    for (int i = 0; i < count && i < wanted; i++)
        candidates[i] = (int)(scores[i] & 0xffffff);
    free(scores);
    free(counts);
}

int gang_choose(struct view *view, const struct request *request, int *candidates, int count)
{
    count = gang_largest_group(view, request, candidates, count);
    if (count < request->nodes_min)
        return count;
    pack(view, candidates, count, request->nodes_max);
    int wanted = request->least ? request->nodes_min : request->nodes_max;
    return count < wanted ? count : wanted;
}
