#include "coordinator/scheduler/gang.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/assert.h"
#include "coordinator/model/query.h"

#define RACK_LABEL "rack"
_Static_assert(CLUSTER_NODES_MAX <= 0xffffff, "a node's index fits into its score");

/* Number the values of a label, in order of the first node's name; 0 = no value. */
static int number_values(struct view *view, const char *label, size_t offset)
{
    struct strmap values = {0};
    int count = 1;
    for (int i = 0; i < view->count; i++) {
        const char *value = node_label(view->nodes[i].node, label);
        uintptr_t number = value ? (uintptr_t)strmap_get(&values, value) : 0;
        if (value && number == 0) {
            number = (uintptr_t)count++;
            insist(!strmap_set(&values, value, (void *)number, NULL));
        }
        *(int *)((char *)&view->nodes[i] + offset) = (int)number;
    }
    strmap_fini(&values);
    return count;
}

void gang_number_groups(struct view *view, const char *label)
{
    if (!view->topology || strcmp(view->topology, label) != 0)
        view->groups = number_values(view, label, offsetof(struct view_node, group));
    view->topology = label;
}

/* The value with the most candidates; among equals that of the first node. A node without the label
 * shares it with no other. */
int gang_largest_group(struct view *view, const struct request *request, int *candidates, int count)
{
    const char *label = request->spec->topology;
    if (!label[0] || count == 0)
        return count;
    gang_number_groups(view, label);
    int *sizes = calloc((size_t)view->groups, sizeof(*sizes)), best = 0, kept = 0;
    insist(sizes);
    for (int i = 0; i < count; i++)
        sizes[view->nodes[candidates[i]].group]++;
    sizes[0] = 0;
    for (int group = 1; group < view->groups; group++)
        if (sizes[group] > sizes[best])
            best = group;
    for (int i = 0; i < count && best > 0; i++)
        if (view->nodes[candidates[i]].group == best)
            candidates[kept++] = candidates[i];
    free(sizes);
    return kept;
}

struct rack {
    int number, count;
};

static int by_count(const void *a, const void *b)
{
    const struct rack *x = a, *y = b;
    return x->count != y->count ? (x->count > y->count ? -1 : 1)
                                : (x->number > y->number) - (x->number < y->number);
}

/* Order of racks: the tightest that is large enough; if there is none, the fullest first, so that
 * few racks are used. ret_rank[rack] = its place. */
static void rank_racks(const int *counts, int racks, int wanted, int *ret_rank)
{
    int best = -1;
    for (int r = 0; r < racks; r++)
        if (counts[r] >= wanted && (best < 0 || counts[r] < counts[best]))
            best = r;
    if (best >= 0) {
        for (int r = 0; r < racks; r++)
            ret_rank[r] = r != best;
        return;
    }
    struct rack *order = calloc((size_t)racks, sizeof(*order));
    insist(order);
    for (int r = 0; r < racks; r++)
        order[r] = (struct rack){.number = r, .count = counts[r]};
    qsort(order, (size_t)racks, sizeof(*order), by_count);
    for (int i = 0; i < racks; i++)
        ret_rank[order[i].number] = i;
    free(order);
}

static uint64_t node_score(const struct view *view, const int *rank, int index)
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

/* The `wanted` lowest scores first. A few are found by selection, many by sorting. */
static void select_lowest(uint64_t *scores, int count, int wanted)
{
    enum { LOOK_MAX = 8 };
    if (wanted > LOOK_MAX) {
        qsort(scores, (size_t)count, sizeof(*scores), by_score);
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

static void order_candidates(struct view *view, int *candidates, int count, int wanted)
{
    uint64_t *scores = malloc(sizeof(*scores) * (size_t)count);
    int *counts = NULL;
    insist(scores);
    if (wanted > 1 && view->racks == 0)
        view->racks = number_values(view, RACK_LABEL, offsetof(struct view_node, rack));
    if (wanted > 1 && view->racks > 1) {
        counts = calloc((size_t)view->racks * 2, sizeof(*counts));
        insist(counts);
        for (int i = 0; i < count; i++)
            counts[view->nodes[candidates[i]].rack]++;
        rank_racks(counts, view->racks, wanted < count ? wanted : count, counts + view->racks);
    }
    for (int i = 0; i < count; i++)
        scores[i] = node_score(view, counts ? counts + view->racks : NULL, candidates[i]);
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
    order_candidates(view, candidates, count, request->nodes_max);
    int wanted = request->least ? request->nodes_min : request->nodes_max;
    return count < wanted ? count : wanted;
}
