#include "common/base/tree_build.h"

#include <string.h>

static struct tree *node_new(struct arena *arena, enum tree_kind kind)
{
    struct tree *node = arena_zalloc(arena, sizeof(*node));
    if (node)
        node->kind = kind;
    return node;
}

struct tree *tree_null(struct arena *arena)
{
    return node_new(arena, TREE_NULL);
}

struct tree *tree_bool(struct arena *arena, bool value)
{
    struct tree *node = node_new(arena, TREE_BOOL);
    if (node)
        node->boolean = value;
    return node;
}

struct tree *tree_integer(struct arena *arena, int64_t value)
{
    struct tree *node = node_new(arena, TREE_INTEGER);
    if (node)
        node->integer = value;
    return node;
}

struct tree *tree_number(struct arena *arena, double value)
{
    struct tree *node = node_new(arena, TREE_NUMBER);
    if (node)
        node->number = value;
    return node;
}

struct tree *tree_string(struct arena *arena, const char *value)
{
    if (!value)
        return tree_null(arena);
    struct tree *node = node_new(arena, TREE_STRING);
    if (node)
        node->string = arena_strdup(arena, value);
    return node && node->string ? node : NULL;
}

struct tree *tree_list(struct arena *arena)
{
    return node_new(arena, TREE_LIST);
}

struct tree *tree_map(struct arena *arena)
{
    return node_new(arena, TREE_MAP);
}

static void append_child(struct tree *parent, struct tree *child)
{
    child->parent = parent;
    child->next = NULL;
    if (parent->last)
        parent->last->next = child;
    else
        parent->first = child;
    parent->last = child;
    parent->count++;
}

static struct tree *previous_of(const struct tree *child)
{
    struct tree *previous = NULL;
    for (struct tree *t = child->parent->first; t != child; t = t->next)
        previous = t;
    return previous;
}

/* Put `with` (NULL: nothing) where `child` is. */
static void exchange_child(struct tree *child, struct tree *with)
{
    struct tree *parent = child->parent;
    struct tree *previous = previous_of(child);
    struct tree *following = with ? with : child->next;
    if (with) {
        with->parent = parent;
        with->next = child->next;
    }
    if (previous)
        previous->next = following;
    else
        parent->first = following;
    if (parent->last == child)
        parent->last = with ? with : previous;
    parent->count -= !with;
    child->parent = child->next = NULL;
}

int tree_map_set(struct arena *arena, struct tree *map, const char *key, struct tree *value)
{
    if (!map || !value)
        return E_RESOURCE_EXHAUSTED;
    struct tree *old = tree_get(map, key);
    value->key = old ? old->key : arena_strdup(arena, key);
    if (!value->key)
        return E_RESOURCE_EXHAUSTED;
    if (old)
        exchange_child(old, value);
    else
        append_child(map, value);
    return 0;
}

int tree_list_add(struct tree *list, struct tree *value)
{
    if (!list || !value)
        return E_RESOURCE_EXHAUSTED;
    value->key = NULL;
    append_child(list, value);
    return 0;
}

int tree_map_remove(struct tree *map, const char *key)
{
    struct tree *child = tree_get(map, key);
    if (!child)
        return E_NOT_FOUND;
    exchange_child(child, NULL);
    return 0;
}

/* The node without its place in a tree and without children. */
static struct tree *copy_alone(struct arena *arena, const struct tree *node)
{
    struct tree *copy = arena_copy(arena, node, sizeof(*node));
    if (!copy)
        return NULL;
    copy->parent = copy->next = NULL;
    copy->key = arena_strdup(arena, node->key);
    if (node->key && !copy->key)
        return NULL;
    if (node->kind == TREE_STRING && !(copy->string = arena_strdup(arena, node->string)))
        return NULL;
    if (node->kind == TREE_LIST || node->kind == TREE_MAP) {
        copy->first = copy->last = NULL;
        copy->count = 0;
    }
    return copy;
}

struct tree *tree_copy(struct arena *arena, const struct tree *node)
{
    const struct tree *at = node;
    struct tree *copy = copy_alone(arena, node);
    struct tree *root = copy;
    if (root)
        root->key = NULL;
    while (copy) {
        const struct tree *next = tree_first(at);
        struct tree *parent = copy;
        while (!next && at != node) {
            next = at->next;
            at = at->parent;
            parent = parent->parent;
        }
        if (!next)
            return root;
        at = next;
        copy = copy_alone(arena, next);
        if (copy)
            append_child(parent, copy);
    }
    return NULL;
}
