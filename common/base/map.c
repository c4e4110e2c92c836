#include "common/base/map.h"

#include <stdlib.h>
#include <string.h>

#include "common/base/error.h"

enum { SEEN_FROM = 64, SEEN_PER_ENTRY = 4 };

/* Keys of a map are numbers and have no name; keys of a strmap are names. */
struct key {
    uint64_t number;
    const char *name;
};

static int compare_key(struct key key, const struct map_entry *entry)
{
    if (key.name)
        return strcmp(key.name, entry->name);
    return (key.number > entry->key) - (key.number < entry->key);
}

static int height(const struct map_entry *entry)
{
    return entry ? entry->height : 0;
}

static void set_height(struct map_entry *entry)
{
    int left = height(entry->left), right = height(entry->right);
    entry->height = 1 + (left > right ? left : right);
}

/* Put `with` where `entry` hangs. */
static void replace_child(struct map *map, struct map_entry *entry, struct map_entry *with)
{
    struct map_entry *parent = entry->parent;
    if (!parent)
        map->root = with;
    else if (parent->left == entry)
        parent->left = with;
    else
        parent->right = with;
    if (with)
        with->parent = parent;
}

/*      e            r
 *     a r    ->    e c
 *      b c        a b        and its mirror; returns the new top */
static struct map_entry *rotate_entry(struct map *map, struct map_entry *entry, int to_left)
{
    struct map_entry *top = to_left ? entry->right : entry->left;
    struct map_entry *middle = to_left ? top->left : top->right;
    replace_child(map, entry, top);
    if (to_left) {
        entry->right = middle;
        top->left = entry;
    } else {
        entry->left = middle;
        top->right = entry;
    }
    if (middle)
        middle->parent = entry;
    entry->parent = top;
    set_height(entry);
    set_height(top);
    return top;
}

/* From `entry` up, as far as heights change. */
static void rebalance_from(struct map *map, struct map_entry *entry)
{
    while (entry) {
        int was = entry->height;
        int lean = height(entry->left) - height(entry->right);
        if (lean > 1) {
            if (height(entry->left->left) < height(entry->left->right))
                rotate_entry(map, entry->left, 1);
            entry = rotate_entry(map, entry, 0);
        } else if (lean < -1) {
            if (height(entry->right->right) < height(entry->right->left))
                rotate_entry(map, entry->right, 0);
            entry = rotate_entry(map, entry, 1);
        } else {
            set_height(entry);
        }
        if (entry->height == was)
            break;
        entry = entry->parent;
    }
}

/* FNV-1a of a name, the finalizer of MurmurHash3 of a number. */
static uint64_t hash(struct key key)
{
    uint64_t h = key.number;
    if (key.name) {
        h = 0xcbf29ce484222325u;
        for (const char *at = key.name; *at; at++)
            h = (h ^ (uint8_t)*at) * 0x100000001b3u;
    }
    h = (h ^ h >> 33) * 0xff51afd7ed558ccdu;
    return h ^ h >> 33;
}

static struct map_entry **seen_slot(const struct map *map, struct key key)
{
    return map->seen ? &map->seen[hash(key) & (map->seen_size - 1)] : NULL;
}

static void seen_drop(struct map *map)
{
    free(map->seen);
    map->seen = NULL;
    map->seen_size = 0;
}

/* An empty one is as good as the old one: it fills as keys are looked up. */
static void seen_grow(struct map *map)
{
    size_t size = map->seen_size ? map->seen_size * 2 : (size_t)SEEN_FROM * SEEN_PER_ENTRY;
    struct map_entry **seen = calloc(size, sizeof(struct map_entry *));
    if (!seen)
        return;
    free(map->seen);
    map->seen = seen;
    map->seen_size = size;
}

static struct map_entry *find_entry(const struct map *map, struct key key)
{
    struct map_entry **seen = seen_slot(map, key);
    if (seen && *seen && compare_key(key, *seen) == 0)
        return *seen;
    struct map_entry *entry = map->root;
    while (entry) {
        int order = compare_key(key, entry);
        if (order == 0)
            break;
        entry = order < 0 ? entry->left : entry->right;
    }
    if (entry && seen)
        *seen = entry;
    return entry;
}

static struct map_entry *at_least(const struct map *map, struct key key)
{
    struct map_entry *best = NULL;
    struct map_entry *entry = map->root;
    while (entry) {
        if (compare_key(key, entry) <= 0) {
            best = entry;
            entry = entry->left;
        } else {
            entry = entry->right;
        }
    }
    return best;
}

/* The name is copied after the entry, so that both are one allocation. */
static struct map_entry *entry_new(struct key key, void *value)
{
    size_t name_bytes = key.name ? strlen(key.name) + 1 : 0;
    struct map_entry *entry = malloc(sizeof(*entry) + name_bytes);
    if (!entry)
        return NULL;
    *entry = (struct map_entry){.key = key.number, .value = value, .height = 1};
    if (key.name)
        entry->name = memcpy(entry + 1, key.name, name_bytes);
    return entry;
}

static int set(struct map *map, struct key key, void *value, void **ret_old)
{
    struct map_entry *parent = NULL;
    struct map_entry **link = &map->root;
    void *old = NULL;
    while (*link) {
        parent = *link;
        int order = compare_key(key, parent);
        if (order == 0) {
            old = parent->value;
            parent->value = value;
            break;
        }
        link = order < 0 ? &parent->left : &parent->right;
    }
    if (!*link) {
        struct map_entry *entry = entry_new(key, value);
        if (!entry)
            return E_RESOURCE_EXHAUSTED;
        entry->parent = parent;
        *link = entry;
        map->count++;
        rebalance_from(map, parent);
        if (map->count >= SEEN_FROM && map->count * SEEN_PER_ENTRY > map->seen_size)
            seen_grow(map);
        struct map_entry **seen = seen_slot(map, key);
        if (seen)
            *seen = entry;
    }
    if (ret_old)
        *ret_old = old;
    return 0;
}

static void unlink_entry(struct map *map, struct map_entry *entry)
{
    struct map_entry *deepest; /* where heights may have changed */
    if (!entry->left || !entry->right) {
        deepest = entry->parent;
        replace_child(map, entry, entry->left ? entry->left : entry->right);
    } else {
        struct map_entry *successor = map_next(entry);
        deepest = successor->parent == entry ? successor : successor->parent;
        replace_child(map, successor, successor->right);
        replace_child(map, entry, successor);
        successor->left = entry->left;
        successor->right = entry->right;
        successor->height = entry->height;
        if (successor->left)
            successor->left->parent = successor;
        if (successor->right)
            successor->right->parent = successor;
    }
    rebalance_from(map, deepest);
}

static void *take_value(struct map *map, struct key key)
{
    struct map_entry *entry = find_entry(map, key);
    if (!entry)
        return NULL;
    void *value = entry->value;
    struct map_entry **seen = seen_slot(map, key);
    if (seen && *seen == entry)
        *seen = NULL;
    unlink_entry(map, entry);
    map->count--;
    if (map->count == 0)
        seen_drop(map);
    free(entry);
    return value;
}

void map_fini(struct map *map)
{
    struct map_entry *entry = map->root;
    while (entry) { /* leaves first, without recursion */
        if (entry->left) {
            entry = entry->left;
        } else if (entry->right) {
            entry = entry->right;
        } else {
            struct map_entry *parent = entry->parent;
            if (parent && parent->left == entry)
                parent->left = NULL;
            else if (parent)
                parent->right = NULL;
            free(entry);
            entry = parent;
        }
    }
    free(map->seen);
    *map = (struct map){0};
}

struct map_entry *map_first(const struct map *map)
{
    struct map_entry *entry = map->root;
    while (entry && entry->left)
        entry = entry->left;
    return entry;
}

struct map_entry *map_last(const struct map *map)
{
    struct map_entry *entry = map->root;
    while (entry && entry->right)
        entry = entry->right;
    return entry;
}

struct map_entry *map_next(const struct map_entry *entry)
{
    if (entry->right) {
        entry = entry->right;
        while (entry->left)
            entry = entry->left;
        return (struct map_entry *)entry;
    }
    while (entry->parent && entry->parent->right == entry)
        entry = entry->parent;
    return entry->parent;
}

struct map_entry *map_previous(const struct map_entry *entry)
{
    if (entry->left) {
        entry = entry->left;
        while (entry->right)
            entry = entry->right;
        return (struct map_entry *)entry;
    }
    while (entry->parent && entry->parent->left == entry)
        entry = entry->parent;
    return entry->parent;
}

struct map_entry *map_find(const struct map *map, uint64_t key)
{
    return find_entry(map, (struct key){.number = key});
}

void *map_get(const struct map *map, uint64_t key)
{
    struct map_entry *entry = map_find(map, key);
    return entry ? entry->value : NULL;
}

int map_set(struct map *map, uint64_t key, void *value, void **ret_old)
{
    return set(map, (struct key){.number = key}, value, ret_old);
}

void *map_remove(struct map *map, uint64_t key)
{
    return take_value(map, (struct key){.number = key});
}

struct map_entry *map_at_least(const struct map *map, uint64_t key)
{
    return at_least(map, (struct key){.number = key});
}

void map_free_values(struct map *map)
{
    for (struct map_entry *e = map_first(map); e; e = map_next(e))
        free(e->value);
    map_fini(map);
}

void strmap_fini(struct strmap *map)
{
    map_fini(&map->tree);
}

void strmap_free_values(struct strmap *map)
{
    map_free_values(&map->tree);
}

struct map_entry *strmap_find(const struct strmap *map, const char *name)
{
    return find_entry(&map->tree, (struct key){.name = name});
}

void *strmap_get(const struct strmap *map, const char *name)
{
    struct map_entry *entry = strmap_find(map, name);
    return entry ? entry->value : NULL;
}

int strmap_set(struct strmap *map, const char *name, void *value, void **ret_old)
{
    return set(&map->tree, (struct key){.name = name}, value, ret_old);
}

void *strmap_remove(struct strmap *map, const char *name)
{
    return take_value(&map->tree, (struct key){.name = name});
}

struct map_entry *strmap_first(const struct strmap *map)
{
    return map_first(&map->tree);
}

struct map_entry *strmap_at_least(const struct strmap *map, const char *name)
{
    return at_least(&map->tree, (struct key){.name = name});
}
