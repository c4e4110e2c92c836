#include <criterion/criterion.h>
#include <signal.h>
#include <stdio.h>

#include "common/base/heap.h"
#include "common/base/rng.h"

struct item {
    int value;
    struct heap_node node;
};

Test(heap, empty_gives_nothing)
{
    struct heap heap = {0};
    struct heap_node node = {0};
    cr_assert_null(heap_peek(&heap));
    cr_assert_null(heap_pop(&heap));
    heap_remove(&heap, &node);
    heap_fini(&heap);
}

Test(heap, equal_keys_come_out_in_sequence_order)
{
    struct heap heap = {0};
    struct heap_node nodes[100] = {0};
    for (unsigned i = 0; i < 100; i++) {
        nodes[i] = (struct heap_node){.key = 5, .sequence = (i * 37) % 100};
        cr_assert_eq(heap_push(&heap, &nodes[i]), 0);
    }
    for (unsigned i = 0; i < 100; i++)
        cr_assert_eq(heap_pop(&heap)->sequence, i);
    heap_fini(&heap);
}

static void check_order(const struct heap *heap)
{
    for (size_t i = 1; i < heap->count; i++) {
        const struct heap_node *parent = heap->slots[(i - 1) / 2].node;
        const struct heap_node *child = heap->slots[i].node;
        cr_assert(parent->key < child->key ||
                  (parent->key == child->key && parent->sequence < child->sequence));
        cr_assert_eq(child->index, i + 1);
        cr_assert_eq(heap->slots[i].key, child->key);
        cr_assert_eq(heap->slots[i].sequence, child->sequence);
    }
}

Test(heap, random_pushes_removals_and_updates_keep_the_order)
{
    struct heap heap = {0};
    struct heap_node nodes[200] = {0};
    struct rng rng;
    rng_seed(&rng, 1);
    for (int step = 0; step < 20000; step++) {
        struct heap_node *node = &nodes[rng_below(&rng, 200)];
        if (!heap_contains(node)) {
            node->key = rng_between(&rng, -20, 20);
            node->sequence = (uint64_t)step;
            heap_push(&heap, node);
        } else if (rng_chance(&rng, 0.5)) {
            heap_remove(&heap, node);
            cr_assert_not(heap_contains(node));
        } else {
            node->key = rng_between(&rng, -20, 20);
            heap_update(&heap, node);
        }
        if (step % 100 == 0)
            check_order(&heap);
    }
    int64_t last = INT64_MIN;
    for (struct heap_node *node; (node = heap_pop(&heap)); last = node->key)
        cr_assert_geq(node->key, last);
    heap_fini(&heap);
}

Test(heap, fini_forgets_the_nodes_inside)
{
    struct heap heap = {0};
    struct item item = {.value = 3};
    heap_push(&heap, &item.node);
    cr_assert_eq(heap_entry(heap_peek(&heap), struct item, node)->value, 3);
    heap_fini(&heap);
    cr_assert_not(heap_contains(&item.node));
}

Test(heap, pushing_a_node_twice_is_a_mistake_of_ours, .signal = SIGABRT)
{
    struct heap heap = {0};
    struct heap_node node = {0};
    freopen("/dev/null", "w", stderr);
    heap_push(&heap, &node);
    heap_push(&heap, &node);
}
