#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/map.h"
#include "common/base/rng.h"

enum { KEYS = 500 };

static int check_subtree(const struct map_entry *entry, const struct map_entry *parent)
{
    if (!entry)
        return 0;
    cr_assert_eq(entry->parent, parent);
    int left = check_subtree(entry->left, entry), right = check_subtree(entry->right, entry);
    cr_assert_leq(left - right, 1);
    cr_assert_leq(right - left, 1);
    int height = 1 + (left > right ? left : right);
    cr_assert_eq(entry->height, height);
    return height;
}

static void check_against(const struct map *map, char *const *model)
{
    const struct map_entry *e = map_first(map);
    size_t count = 0;
    check_subtree(map->root, NULL);
    for (uint64_t key = 0; key < KEYS; key++) {
        cr_assert_eq(map_get(map, key), model[key]);
        if (!model[key])
            continue;
        cr_assert_eq(e->key, key);
        cr_assert_eq(e->value, model[key]);
        e = map_next(e);
        count++;
    }
    cr_assert_null(e);
    cr_assert_eq(map->count, count);
}

Test(map, random_changes_match_a_plain_array_and_stay_balanced)
{
    struct map map = {0};
    char *model[KEYS] = {0};
    char values[2];
    struct rng rng;
    rng_seed(&rng, 42);
    for (int step = 0; step < 20000; step++) {
        uint64_t key = rng_below(&rng, KEYS);
        char *value = &values[rng_below(&rng, 2)];
        if (rng_chance(&rng, 0.5)) {
            void *old;
            cr_assert_eq(map_set(&map, key, value, &old), 0);
            cr_assert_eq(old, model[key]);
            model[key] = value;
        } else {
            cr_assert_eq(map_remove(&map, key), model[key]);
            model[key] = NULL;
        }
        if (step % 500 == 0)
            check_against(&map, model);
    }
    check_against(&map, model);
    map_fini(&map);
    cr_assert_eq(map.count, 0);
}

Test(map, extreme_keys_and_both_directions)
{
    struct map map = {0};
    int x;
    map_set(&map, UINT64_MAX, &x, NULL);
    map_set(&map, 0, &x, NULL);
    map_set(&map, 1ull << 63, &x, NULL);
    cr_assert_eq(map_first(&map)->key, 0);
    cr_assert_eq(map_last(&map)->key, UINT64_MAX);
    cr_assert_eq(map_previous(map_last(&map))->key, 1ull << 63);
    cr_assert_null(map_previous(map_first(&map)));
    cr_assert_eq(map_at_least(&map, 1)->key, 1ull << 63);
    cr_assert_eq(map_at_least(&map, UINT64_MAX)->key, UINT64_MAX);
    map_remove(&map, UINT64_MAX);
    cr_assert_null(map_at_least(&map, UINT64_MAX));
    map_fini(&map);
}

Test(map, an_entry_may_be_removed_during_a_walk_once_its_successor_is_known)
{
    struct map map = {0};
    int x;
    for (uint64_t key = 0; key < 100; key++)
        map_set(&map, key, &x, NULL);
    for (struct map_entry *e = map_first(&map), *next; e; e = next) {
        next = map_next(e);
        if (e->key % 3)
            map_remove(&map, e->key);
    }
    cr_assert_eq(map.count, 34);
    map_fini(&map);
}

Test(strmap, names_are_copied_and_ordered_by_bytes)
{
    struct strmap map = {0};
    char name[] = "beta";
    int one, two;
    strmap_set(&map, name, &one, NULL);
    name[0] = 'X';
    strmap_set(&map, "alpha", &two, NULL);
    strmap_set(&map, "", &two, NULL);
    strmap_set(&map, "\xc3\xa9", &two, NULL);
    cr_assert_eq(strmap_get(&map, "beta"), &one);
    cr_assert_null(strmap_get(&map, "Xeta"));
    struct map_entry *e = strmap_first(&map);
    static const char *const expected[] = {"", "alpha", "beta", "\xc3\xa9"};
    for (int i = 0; i < 4; i++, e = map_next(e))
        cr_assert_str_eq(e->name, expected[i]);
    cr_assert_null(e);
    cr_assert_str_eq(strmap_at_least(&map, "b")->name, "beta");
    void *old;
    cr_assert_eq(strmap_set(&map, "beta", &two, &old), 0);
    cr_assert_eq(old, &one);
    cr_assert_eq(strmap_remove(&map, "beta"), &two);
    cr_assert_null(strmap_remove(&map, "beta"));
    cr_assert_eq(strmap_count(&map), 3);
    strmap_fini(&map);
}

Test(map, values_are_freed_with_their_map) /* the leak checker sees one that is not */
{
    struct map map = {0};
    struct strmap names = {0};
    for (uint64_t key = 0; key < 20; key++)
        map_set(&map, key, malloc(8), NULL);
    strmap_set(&names, "one", malloc(8), NULL);
    map_free_values(&map);
    strmap_free_values(&names);
    cr_assert_eq(map.count, 0);
    cr_assert_null(strmap_first(&names));
    strmap_free_values(&names); /* an empty map is allowed */
}
