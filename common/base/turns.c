#include "common/base/turns.h"

#include <stdlib.h>

static void share_init(struct turns_share *share, uint64_t whose)
{
    share->whose = whose;
    share->left_ms = TURNS_QUANTUM_MS;
    list_init(&share->link);
    list_init(&share->items);
}

void turns_init(struct turns *turns)
{
    *turns = (struct turns){0};
    list_init(&turns->fresh);
    list_init(&turns->old);
    share_init(&turns->common, 0);
}

static void forget(struct turns *turns, struct turns_share *share)
{
    list_remove(&share->link);
    if (turns->now == share)
        turns->now = NULL;
    if (share == &turns->common) {
        share_init(share, 0);
        return;
    }
    map_remove(&turns->shares, share->whose);
    free(share);
}

void turns_fini(struct turns *turns)
{
    struct turns_share *share;
    list_splice_back(&turns->fresh, &turns->old);
    while ((share = list_first(&turns->fresh, struct turns_share, link))) {
        while (!list_empty(&share->items))
            list_remove(share->items.next);
        forget(turns, share);
    }
    map_fini(&turns->shares);
}

static struct turns_share *share_of(struct turns *turns, uint64_t whose)
{
    struct turns_share *share = map_get(&turns->shares, whose);
    if (share)
        return share;
    share = malloc(sizeof(*share));
    if (!share || map_set(&turns->shares, whose, share, NULL)) {
        free(share);
        return &turns->common;
    }
    share_init(share, whose);
    return share;
}

void turns_add(struct turns *turns, uint64_t whose, struct list *item)
{
    struct turns_share *share = share_of(turns, whose);
    if (list_empty(&share->link))
        list_push_back(&turns->fresh, &share->link);
    list_push_back(&share->items, item);
}

static void to_the_end(struct turns *turns, struct turns_share *share)
{
    list_remove(&share->link);
    list_push_back(&turns->old, &share->link);
}

struct list *turns_next(struct turns *turns)
{
    while (!turns_empty(turns)) {
        bool fresh = !list_empty(&turns->fresh);
        struct turns_share *share =
            list_first(fresh ? &turns->fresh : &turns->old, struct turns_share, link);
        bool more = !list_empty(&share->items);
        if (more && share->left_ms > 0) {
            struct list *item = share->items.next;
            list_remove(item);
            turns->now = share;
            return item;
        }
        if (!more && (!fresh || list_empty(&turns->old))) {
            forget(turns, share);
            continue;
        }
        if (more)
            share->left_ms += TURNS_QUANTUM_MS;
        to_the_end(turns, share);
    }
    return NULL;
}

void turns_charge(struct turns *turns, int64_t ms)
{
    struct turns_share *share = turns->now;
    if (!share)
        return;
    share->left_ms -= ms;
    if (share->left_ms < -TURNS_DEBT_MAX_MS)
        share->left_ms = -TURNS_DEBT_MAX_MS;
}
