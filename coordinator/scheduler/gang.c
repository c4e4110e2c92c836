#include "coordinator/scheduler/gang.h"

#include <stdlib.h>
#include <string.h>

#include "coordinator/scheduler/filter.h"

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

int gang_choose(const struct view *view, const struct request *request, int *candidates, int count)
{
    struct order order = {.view = view, .topology = ""};
    count = gang_largest_group(view, request, candidates, count);
    if (count > 0)
        qsort_r(candidates, (size_t)count, sizeof *candidates, compare, &order);
    return count < request->nodes_max ? count : request->nodes_max;
}
