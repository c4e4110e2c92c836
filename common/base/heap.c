#include "common/base/heap.h"

#include <stdlib.h>

#include "common/base/assert.h"
#include "common/base/error.h"

void heap_fini(struct heap *heap)
{
    for (size_t i = 0; i < heap->count; i++)
        heap->slots[i].node->index = 0;
    free(heap->slots);
    *heap = (struct heap){0};
}

static struct heap_slot slot_of(struct heap_node *node)
{
    return (struct heap_slot){node->key, node->sequence, node};
}

static bool before(const struct heap_slot *a, const struct heap_slot *b)
{
    return a->key != b->key ? a->key < b->key : a->sequence < b->sequence;
}

static void place(struct heap *heap, struct heap_slot slot, size_t at)
{
    heap->slots[at] = slot;
    slot.node->index = at + 1;
}

static size_t sift_up(struct heap *heap, struct heap_slot slot, size_t at)
{
    while (at > 0 && before(&slot, &heap->slots[(at - 1) / 2])) {
        place(heap, heap->slots[(at - 1) / 2], at);
        at = (at - 1) / 2;
    }
    place(heap, slot, at);
    return at;
}

static void sift_down(struct heap *heap, struct heap_slot slot, size_t at)
{
    for (;;) {
        size_t child = 2 * at + 1;
        if (child >= heap->count)
            break;
        if (child + 1 < heap->count && before(&heap->slots[child + 1], &heap->slots[child]))
            child++;
        if (!before(&heap->slots[child], &slot))
            break;
        place(heap, heap->slots[child], at);
        at = child;
    }
    place(heap, slot, at);
}

int heap_push(struct heap *heap, struct heap_node *node)
{
    never(heap_contains(node));
    if (heap->count == heap->capacity) {
        size_t capacity = heap->capacity ? heap->capacity * 2 : 16;
        struct heap_slot *slots = reallocarray(heap->slots, capacity, sizeof(*slots));
        if (!slots)
            return E_RESOURCE_EXHAUSTED;
        heap->slots = slots;
        heap->capacity = capacity;
    }
    heap->count++;
    (void)sift_up(heap, slot_of(node), heap->count - 1);
    return 0;
}

struct heap_node *heap_peek(const struct heap *heap)
{
    return heap->count ? heap->slots[0].node : NULL;
}

struct heap_node *heap_pop(struct heap *heap)
{
    struct heap_node *node = heap_peek(heap);
    if (node)
        heap_remove(heap, node);
    return node;
}

static void insist_inside(const struct heap *heap, const struct heap_node *node)
{
    insist(heap_contains(node) && node->index <= heap->count &&
           heap->slots[node->index - 1].node == node);
}

/* Put it where the slot `at` was, and from there into order. */
static void settle(struct heap *heap, struct heap_slot slot, size_t at)
{
    sift_down(heap, slot, sift_up(heap, slot, at));
}

void heap_update(struct heap *heap, struct heap_node *node)
{
    insist_inside(heap, node);
    settle(heap, slot_of(node), node->index - 1);
}

void heap_remove(struct heap *heap, struct heap_node *node)
{
    if (!heap_contains(node))
        return;
    insist_inside(heap, node);
    struct heap_slot last = heap->slots[--heap->count];
    size_t at = node->index - 1;
    node->index = 0;
    if (last.node != node)
        settle(heap, last, at);
}
