/* Min-heap of nodes embedded in their owners: smallest key first. Equal keys are ordered by a
 * sequence that the caller chooses (usually a counter), so that every order is decided. The heap
 * owns only its array. It has a copy of each key, so comparing reads no node; the nodes of a large
 * heap are cold. One thread at a time. */
#ifndef BASE_HEAP_H
#define BASE_HEAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct heap_node { /* zeroed memory is a node in no heap */
    int64_t key;
    uint64_t sequence;
    size_t index; /* 1-based place in the heap, 0 = in none */
};

struct heap_slot {
    int64_t key;
    uint64_t sequence;
    struct heap_node *node;
};

struct heap { /* zeroed memory is an empty heap */
    struct heap_slot *slots;
    size_t count;
    size_t capacity;
};

#define heap_entry(node, type, member) ((type *)((char *)(node)-offsetof(type, member)))

void heap_fini(struct heap *heap); /* nodes still inside are marked as in no heap */

/* `node` must be in no heap and carry its key and sequence. E_RESOURCE_EXHAUSTED without memory. */
int heap_push(struct heap *heap, struct heap_node *node);

/* Smallest node, NULL if empty; heap_pop removes it. */
struct heap_node *heap_peek(const struct heap *heap);
struct heap_node *heap_pop(struct heap *heap);

/* Remove a node from anywhere; allowed for a node in no heap. */
void heap_remove(struct heap *heap, struct heap_node *node);

/* Put a node that is inside back in order after its key or sequence changed. */
void heap_update(struct heap *heap, struct heap_node *node);

static inline bool heap_contains(const struct heap_node *node)
{
    return node->index != 0;
}

#endif
