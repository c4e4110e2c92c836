#include "common/base/tree.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "common/base/parse.h"
#include "common/base/str.h"
#include "common/base/tree_write.h"

const char *tree_kind_name(enum tree_kind kind)
{
    switch (kind) {
    case TREE_NULL:
        return "null";
    case TREE_BOOL:
        return "a boolean";
    case TREE_INTEGER:
        return "an integer";
    case TREE_NUMBER:
        return "a number";
    case TREE_STRING:
        return "a string";
    case TREE_LIST:
        return "a list";
    case TREE_MAP:
        return "a map";
    }
    return "nothing";
}

struct tree *tree_get(const struct tree *map, const char *key)
{
    struct tree *child;
    if (!map || map->kind != TREE_MAP)
        return NULL;
    tree_each(child, map)
        if (strcmp(child->key, key) == 0)
            return child;
    return NULL;
}

struct tree *tree_at(const struct tree *list, size_t index)
{
    struct tree *child;
    if (!list || list->kind != TREE_LIST)
        return NULL;
    tree_each(child, list)
        if (index-- == 0)
            return child;
    return NULL;
}

static struct tree *get_view(const struct tree *map, struct str key)
{
    struct tree *child;
    if (map->kind != TREE_MAP)
        return NULL;
    tree_each(child, map)
        if (str_equal(str_of(child->key), key))
            return child;
    return NULL;
}

/* "[12]" at `*path`, which is moved past it. */
static struct tree *step_index(const struct tree *list, const char **path)
{
    char digits[20];
    size_t length = strspn(*path + 1, "0123456789");
    int64_t index;
    if (length >= sizeof(digits) || (*path)[1 + length] != ']')
        return NULL;
    memcpy(digits, *path + 1, length);
    digits[length] = '\0';
    if (parse_i64(digits, 0, INT64_MAX, &index, NULL))
        return NULL;
    *path += length + 2;
    return tree_at(list, (size_t)index);
}

struct tree *tree_find(const struct tree *root, const char *path)
{
    const struct tree *node = root;
    const char *start = path;
    while (node && *path) {
        if (*path == '[') {
            node = step_index(node, &path);
            continue;
        }
        if (*path == '.' && path != start)
            path++;
        size_t length = strcspn(path, ".[");
        node = get_view(node, (struct str){path, length});
        path += length;
    }
    return (struct tree *)node;
}

static size_t index_in_list(const struct tree *node)
{
    size_t index = 0;
    for (const struct tree *t = node->parent->first; t && t != node; t = t->next)
        index++;
    return index;
}

const char *tree_path(const struct tree *node, char *ret, size_t size)
{
    const struct tree *steps[TREE_WRITE_DEPTH_MAX];
    size_t depth = 0, used = 0;
    ret[0] = '\0';
    for (; node && node->parent && depth < TREE_WRITE_DEPTH_MAX; node = node->parent)
        steps[depth++] = node;
    while (depth-- && used < size - 1) {
        const struct tree *step = steps[depth];
        int rc = step->key ? str_printf(ret + used, size - used, "%s%s", used ? "." : "", step->key)
                           : str_printf(ret + used, size - used, "[%zu]", index_in_list(step));
        if (rc)
            break;
        used += strlen(ret + used);
    }
    return ret;
}

int tree_fail(const struct tree *node, struct error *err, const char *fmt, ...)
{
    if (!err)
        return E_INVALID_ARGUMENT;
    char sentence[sizeof(err->text)];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(sentence, sizeof(sentence), fmt, ap);
    va_end(ap);
    error_set(err, E_INVALID_ARGUMENT, "%s", sentence);
    if (node && node->line)
        error_wrap(err, "line %d, column %d", node->line, node->column);
    char path[sizeof(err->field)];
    if (node)
        error_field(err, "%s", tree_path(node, path, sizeof(path)));
    return E_INVALID_ARGUMENT;
}

static int wrong_kind(const struct tree *node, enum tree_kind wanted, struct error *err)
{
    return tree_fail(node, err, "expected %s, found %s", tree_kind_name(wanted),
                     node ? tree_kind_name(node->kind) : "nothing");
}

int tree_read_bool(const struct tree *node, bool *ret, struct error *err)
{
    if (!node || node->kind != TREE_BOOL)
        return wrong_kind(node, TREE_BOOL, err);
    *ret = node->boolean;
    return 0;
}

int tree_read_i64(const struct tree *node, int64_t *ret, struct error *err)
{
    if (!node || node->kind != TREE_INTEGER)
        return wrong_kind(node, TREE_INTEGER, err);
    *ret = node->integer;
    return 0;
}

int tree_read_f64(const struct tree *node, double *ret, struct error *err)
{
    if (node && node->kind == TREE_INTEGER)
        *ret = (double)node->integer;
    else if (node && node->kind == TREE_NUMBER)
        *ret = node->number;
    else
        return wrong_kind(node, TREE_NUMBER, err);
    return 0;
}

int tree_read_string(const struct tree *node, const char **ret, struct error *err)
{
    if (!node || node->kind != TREE_STRING)
        return wrong_kind(node, TREE_STRING, err);
    *ret = node->string;
    return 0;
}

static bool scalars_equal(const struct tree *a, const struct tree *b)
{
    switch (a->kind) {
    case TREE_BOOL:
        return a->boolean == b->boolean;
    case TREE_INTEGER:
        return a->integer == b->integer;
    case TREE_NUMBER:
        return a->number == b->number;
    case TREE_STRING:
        return strcmp(a->string, b->string) == 0;
    case TREE_NULL:
        return true;
    case TREE_LIST:
    case TREE_MAP:
        return a->count == b->count;
    }
    return false;
}

static bool same_key(const struct tree *a, const struct tree *b)
{
    return a->key && b->key ? strcmp(a->key, b->key) == 0 : a->key == b->key;
}

bool tree_equal(const struct tree *a, const struct tree *b)
{
    const struct tree *root = a;
    for (;;) {
        if (!b || a->kind != b->kind || !scalars_equal(a, b))
            return false;
        const struct tree *next = tree_first(a);
        const struct tree *guess = tree_first(b);
        while (!next && a != root) {
            next = a->next;
            guess = b->next;
            a = a->parent;
            b = b->parent;
        }
        if (!next)
            return true;
        /* Lists and equally ordered maps walk in step; only reordered maps need a search. */
        a = next;
        b = !next->key || (guess && same_key(next, guess)) ? guess : tree_get(b, next->key);
    }
}
