/* Ordered maps (AVL trees): map has u64 keys in ascending order, strmap copies string keys and
 * orders them by bytes. Iteration order is a function of the keys only, never of addresses or of
 * history. Values are the caller's pointers. One thread at a time. All functions O(log n).
 *
 *       for (struct map_entry *e = map_first(&nodes); e; e = map_next(e)) use(e->key, e->value);
 *
 * Removing an entry invalidates only that entry: call map_next before removing.
 *
 * A large map remembers where it found keys (`seen`). A walk down a tree of thousands of entries
 * reads a cold cache line on each level; a hit in `seen` reads two. A lookup therefore writes to
 * the map.
 */
#ifndef BASE_MAP_H
#define BASE_MAP_H

#include <stddef.h>
#include <stdint.h>

struct map_entry {    /* read only */
    uint64_t key;     /* of a map */
    const char *name; /* of a strmap */
    void *value;      /* may be assigned */
    struct map_entry *left, *right, *parent;
    int height;
};

struct map { /* zeroed memory is an empty map */
    struct map_entry *root;
    size_t count;
    struct map_entry **seen; /* by hash of the key; an entry that is not here may be in the tree */
    size_t seen_size;        /* a power of two, 0 = small, or memory was out */
};

struct strmap { /* zeroed memory is an empty map */
    struct map tree;
};

void map_fini(struct map *map);        /* the caller frees the values first */
void map_free_values(struct map *map); /* free() each value, then map_fini */

void *map_get(const struct map *map, uint64_t key); /* NULL if absent */
struct map_entry *map_find(const struct map *map, uint64_t key);

/* Insert or replace; `ret_old` (may be NULL) gets the replaced value or NULL. E_RESOURCE_EXHAUSTED
 * without memory, and then nothing changed. */
int map_set(struct map *map, uint64_t key, void *value, void **ret_old);
void *map_remove(struct map *map, uint64_t key); /* its value, NULL if absent */

struct map_entry *map_first(const struct map *map);
struct map_entry *map_last(const struct map *map);
struct map_entry *map_next(const struct map_entry *entry);
struct map_entry *map_previous(const struct map_entry *entry);
struct map_entry *map_at_least(const struct map *map, uint64_t key); /* first key >= key */

void strmap_fini(struct strmap *map);
void strmap_free_values(struct strmap *map);
void *strmap_get(const struct strmap *map, const char *name);
struct map_entry *strmap_find(const struct strmap *map, const char *name);
int strmap_set(struct strmap *map, const char *name, void *value, void **ret_old);
void *strmap_remove(struct strmap *map, const char *name);
struct map_entry *strmap_first(const struct strmap *map);
struct map_entry *strmap_at_least(const struct strmap *map, const char *name);

static inline size_t strmap_count(const struct strmap *map)
{
    return map->tree.count;
}

#endif
