#include "common/base/heap.h"

#include <stdlib.h>

#include "common/base/assert.h"
#include "common/base/error.h"

void heap_fini(struct heap *heap)
{
    for (size_t i = 0; i < heap->count; i++)
        heap->nodes[i]->index = 0;
    free(heap->nodes);
    *heap = (struct heap){0};
}

static bool before(const struct heap_node *a, const struct heap_node *b)
{
    return a->key != b->key ? a->key < b->key : a->sequence < b->sequence;
}

static void place(struct heap *heap, struct heap_node *node, size_t at)
{
    heap->nodes[at] = node;
    node->index = at + 1;
}

static void sift_up(struct heap *heap, struct heap_node *node, size_t at)
{
    while (at > 0 && before(node, heap->nodes[(at - 1) / 2])) {
        place(heap, heap->nodes[(at - 1) / 2], at);
        at = (at - 1) / 2;
    }
    place(heap, node, at);
}

static void sift_down(struct heap *heap, struct heap_node *node, size_t at)
{
    for (;;) {
        size_t child = 2 * at + 1;
        if (child >= heap->count)
            break;
        if (child + 1 < heap->count && before(heap->nodes[child + 1], heap->nodes[child]))
            child++;
        if (!before(heap->nodes[child], node))
            break;
        place(heap, heap->nodes[child], at);
        at = child;
    }
    place(heap, node, at);
}

int heap_push(struct heap *heap, struct heap_node *node)
{
    never(heap_contains(node));
    if (heap->count == heap->capacity) {
        size_t capacity = heap->capacity ? heap->capacity * 2 : 16;
        struct heap_node **nodes = reallocarray(heap->nodes, capacity, sizeof(struct heap_node *));
        if (!nodes)
            return E_RESOURCE_EXHAUSTED;
        heap->nodes = nodes;
        heap->capacity = capacity;
    }
    heap->count++;
    sift_up(heap, node, heap->count - 1);
    return 0;
}

struct heap_node *heap_peek(const struct heap *heap)
{
    return heap->count ? heap->nodes[0] : NULL;
}

struct heap_node *heap_pop(struct heap *heap)
{
    struct heap_node *node = heap_peek(heap);
    if (node)
        heap_remove(heap, node);
    return node;
}

void heap_update(struct heap *heap, struct heap_node *node)
{
    insist(heap_contains(node) && node->index <= heap->count &&
           heap->nodes[node->index - 1] == node);
    sift_up(heap, node, node->index - 1);
    sift_down(heap, node, node->index - 1);
}

void heap_remove(struct heap *heap, struct heap_node *node)
{
    if (!heap_contains(node))
        return;
    insist(node->index <= heap->count && heap->nodes[node->index - 1] == node);
    struct heap_node *last = heap->nodes[--heap->count];
    size_t at = node->index - 1;
    node->index = 0;
    if (last != node) {
        place(heap, last, at);
        heap_update(heap, last);
    }
}
