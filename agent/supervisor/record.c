#include "agent/supervisor/record.h"

#include "common/base/error.h"
#include "common/base/tree_build.h"

int64_t record_number(const struct tree *map, const char *key)
{
    int64_t value = 0;
    const struct tree *node = tree_get(map, key);
    if (node)
        (void)tree_read_i64(node, &value, NULL);
    return value;
}

const char *record_text(const struct tree *map, const char *key)
{
    const char *value = "";
    const struct tree *node = tree_get(map, key);
    if (node)
        (void)tree_read_string(node, &value, NULL);
    return value;
}

bool record_bool(const struct tree *map, const char *key)
{
    bool value = false;
    const struct tree *node = tree_get(map, key);
    if (node)
        (void)tree_read_bool(node, &value, NULL);
    return value;
}

void record_init(struct record *w)
{
    *w = (struct record){0};
    w->map = tree_map(&w->arena);
}

void record_put(struct record *w, const char *key, struct tree *value)
{
    int rc = w->map ? tree_map_set(&w->arena, w->map, key, value) : E_RESOURCE_EXHAUSTED;
    if (!w->rc)
        w->rc = rc;
}

void record_put_number(struct record *w, const char *key, int64_t value)
{
    record_put(w, key, tree_integer(&w->arena, value));
}

void record_put_text(struct record *w, const char *key, const char *value)
{
    record_put(w, key, tree_string(&w->arena, value));
}

void record_put_bool(struct record *w, const char *key, bool value)
{
    record_put(w, key, tree_bool(&w->arena, value));
}

void record_put_texts(struct record *w, const char *key, const char *const *values)
{
    struct tree *list = tree_list(&w->arena);
    for (; *values && list && !w->rc; values++)
        w->rc = tree_list_add(list, tree_string(&w->arena, *values));
    record_put(w, key, list);
}

int record_texts(const struct tree *map, const char *key, struct arena *arena,
                 const char *const **ret)
{
    const struct tree *list = tree_get(map, key), *child;
    size_t count = 0, at = 0;
    if (!list || list->kind != TREE_LIST)
        return E_DATA_LOSS;
    tree_each(child, list)
        count++;
    const char **texts = arena_array(arena, count + 1, sizeof(*texts));
    if (!texts)
        return E_RESOURCE_EXHAUSTED;
    tree_each(child, list)
        if (tree_read_string(child, &texts[at++], NULL))
            return E_DATA_LOSS;
    *ret = texts;
    return 0;
}
