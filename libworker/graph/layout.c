#include "libworker/graph/layout.h"

#include <stdbool.h>
#include <stdlib.h>

size_t layout_rounded(size_t bytes)
{
    return (bytes + LAYOUT_ALIGN_BYTES - 1) / LAYOUT_ALIGN_BYTES * LAYOUT_ALIGN_BYTES;
}

size_t layout_live(const struct storage *storages, int n, int launches)
{
    size_t *change = calloc((size_t)launches + 2, sizeof(*change)), live = 0, most = 0;
    if (!change)
        return (size_t)-1;
    for (int i = 0; i < n; i++) {
        if (storages[i].first > storages[i].last)
            continue;
        change[storages[i].first] += layout_rounded(storages[i].bytes);
        change[storages[i].last + 1] -=
            layout_rounded(storages[i].bytes); /* wraps, and back in the sum */
    }
    for (int i = 0; i <= launches; i++) {
        live += change[i];
        most = live > most ? live : most;
    }
    free(change);
    return most;
}

/* The largest first; of equals the one that is needed first. */
static int by_size(const void *a, const void *b)
{
    const struct storage *x = *(struct storage *const *)a, *y = *(struct storage *const *)b;
    if (x->bytes != y->bytes)
        return x->bytes > y->bytes ? -1 : 1;
    if (x->first != y->first)
        return x->first < y->first ? -1 : 1;
    return x < y ? -1 : x > y;
}

static bool meet(const struct storage *a, const struct storage *b)
{
    return a->first <= b->last && b->first <= a->last;
}

/* The lowest offset for `next` beside those placed, which are sorted by offset. */
static size_t lowest(struct storage *const *placed, int n, const struct storage *next)
{
    size_t at = 0;
    for (int i = 0; i < n; i++) {
        const struct storage *other = placed[i];
        if (!meet(other, next))
            continue;
        if (other->offset >= at + layout_rounded(next->bytes))
            break;
        size_t end = other->offset + layout_rounded(other->bytes);
        at = end > at ? end : at;
    }
    return at;
}

static void insert(struct storage **placed, int n, struct storage *next)
{
    int i = n;
    for (; i > 0 && placed[i - 1]->offset > next->offset; i--)
        placed[i] = placed[i - 1];
    placed[i] = next;
}

size_t layout_place(struct storage *storages, int n)
{
    struct storage **sorted = calloc((size_t)n + 1, sizeof(struct storage *));
    struct storage **placed = calloc((size_t)n + 1, sizeof(struct storage *));
    bool has = sorted && placed;
    size_t region = has ? 0 : (size_t)-1;
    int n_sorted = 0;
    for (int i = 0; i < n && has; i++) {
        storages[i].offset = 0;
        if (storages[i].first <= storages[i].last && storages[i].bytes)
            sorted[n_sorted++] = &storages[i];
    }
    if (n_sorted)
        qsort(sorted, (size_t)n_sorted, sizeof(struct storage *), by_size);
    for (int i = 0; i < n_sorted; i++) {
        sorted[i]->offset = lowest(placed, i, sorted[i]);
        insert(placed, i, sorted[i]);
        size_t end = sorted[i]->offset + layout_rounded(sorted[i]->bytes);
        region = end > region ? end : region;
    }
    free(sorted);
    free(placed);
    return region;
}
