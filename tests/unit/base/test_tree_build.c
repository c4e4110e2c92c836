#include <criterion/criterion.h>
#include <string.h>

#include "common/base/tree.h"
#include "common/base/tree_build.h"

static struct arena arena;

static void setup(void)
{
    arena_init(&arena, 0);
}

static void teardown(void)
{
    arena_fini(&arena);
}

TestSuite(tree_build, .init = setup, .fini = teardown);

static struct tree *example(void)
{
    struct tree *root = tree_map(&arena), *list = tree_list(&arena), *inner = tree_map(&arena);
    tree_map_set(&arena, root, "name", tree_string(&arena, "gpt"));
    tree_map_set(&arena, root, "list", list);
    tree_list_add(list, tree_integer(&arena, 1));
    tree_list_add(list, inner);
    tree_map_set(&arena, inner, "x", tree_number(&arena, 1.5));
    tree_map_set(&arena, root, "none", tree_null(&arena));
    return root;
}

static struct tree *from_json(const char *text)
{
    struct tree *root = NULL;
    struct tree_input input = {.text = text, .size = strlen(text)};
    cr_assert_eq(tree_parse_json(&input, &arena, &root, NULL), 0);
    return root;
}

Test(tree_build, children_are_found_by_key_index_and_path)
{
    struct tree *root = example();
    cr_assert_eq(tree_find(root, ""), root);
    cr_assert_eq(tree_find(root, "list[1].x")->number, 1.5);
    cr_assert_null(tree_find(root, "list[2]"));
    cr_assert_null(tree_find(root, "list[1].y.z"));
    cr_assert_null(tree_find(root, "list[x]"));
    cr_assert_null(tree_find(root, "list[0"));
    cr_assert_null(tree_find(root, "list[99999999999999999999]"));
    cr_assert_null(tree_find(root, "name.x"));
    cr_assert_null(tree_find(NULL, "a"));
    cr_assert_null(tree_get(NULL, "a"));
    cr_assert_null(tree_get(tree_get(root, "list"), "a"));
    cr_assert_null(tree_at(root, 0));
}

Test(tree_build, a_node_knows_its_path)
{
    struct tree *root = example();
    char path[64], tiny[6];
    cr_assert_str_eq(tree_path(tree_find(root, "list[1].x"), path, sizeof(path)), "list[1].x");
    cr_assert_str_eq(tree_path(root, path, sizeof(path)), "");
    tree_path(tree_find(root, "list[1].x"), tiny, sizeof(tiny));
    cr_assert_lt(strlen(tiny), sizeof(tiny));
}

Test(tree_build, setting_a_key_again_replaces_in_place)
{
    struct tree *root = example(), *child;
    static const char *const keys[] = {"name", "list", "none"};
    int i = 0;
    cr_assert_eq(tree_map_set(&arena, root, "list", tree_bool(&arena, true)), 0);
    tree_each(child, root)
        cr_assert_str_eq(child->key, keys[i++]);
    cr_assert_eq(root->count, 3);
    cr_assert(tree_get(root, "list")->boolean);
    cr_assert_eq(tree_map_set(&arena, root, "none", tree_integer(&arena, 3)), 0);
    cr_assert_eq(root->last->integer, 3);
}

Test(tree_build, keys_can_be_removed_at_every_place)
{
    struct tree *root = example();
    cr_assert_eq(tree_map_remove(root, "absent"), E_NOT_FOUND);
    cr_assert_eq(tree_map_remove(root, "list"), 0);
    cr_assert_eq(tree_map_remove(root, "none"), 0);
    cr_assert_eq(root->last, tree_get(root, "name"));
    cr_assert_eq(tree_map_remove(root, "name"), 0);
    cr_assert_null(root->first);
    cr_assert_null(root->last);
    cr_assert_eq(root->count, 0);
    cr_assert_eq(tree_map_set(&arena, root, "new", tree_null(&arena)), 0);
}

Test(tree_build, a_failed_child_makes_the_parent_fail)
{
    struct tree *map = tree_map(&arena), *list = tree_list(&arena);
    cr_assert_eq(tree_map_set(&arena, map, "a", NULL), E_RESOURCE_EXHAUSTED);
    cr_assert_eq(tree_map_set(&arena, NULL, "a", tree_null(&arena)), E_RESOURCE_EXHAUSTED);
    cr_assert_eq(tree_list_add(list, NULL), E_RESOURCE_EXHAUSTED);
    cr_assert_eq(map->count + list->count, 0);
    cr_assert_eq(tree_string(&arena, NULL)->kind, TREE_NULL);
}

Test(tree_build, equality_ignores_the_order_of_keys_but_not_of_items)
{
    cr_assert(tree_equal(from_json("{\"a\":1,\"b\":[1,{\"c\":null}]}"),
                         from_json("{\"b\":[1,{\"c\":null}],\"a\":1}")));
    cr_assert(tree_equal(from_json("{\"a\":{\"x\":1,\"y\":2},\"b\":3}"),
                         from_json("{\"b\":3,\"a\":{\"y\":2,\"x\":1}}")));
    cr_assert_not(tree_equal(from_json("[1,2]"), from_json("[2,1]")));
    cr_assert_not(tree_equal(from_json("[1]"), from_json("[1.0]")));
    cr_assert_not(tree_equal(from_json("[1]"), from_json("[1,2]")));
    cr_assert_not(tree_equal(from_json("{\"a\":1}"), from_json("{\"b\":1}")));
    cr_assert_not(tree_equal(from_json("{\"a\":null}"), from_json("{\"b\":null}")));
    cr_assert_not(tree_equal(from_json("\"1\""), from_json("1")));
    cr_assert_not(tree_equal(from_json("[[1],2]"), from_json("[[1],3]")));
}

Test(tree_build, a_copy_is_equal_and_independent)
{
    struct tree *root = example();
    struct tree *copy = tree_copy(&arena, root);
    cr_assert(tree_equal(root, copy));
    tree_get(copy, "list")->first->integer = 9;
    cr_assert_not(tree_equal(root, copy));
    struct tree *part = tree_copy(&arena, tree_get(root, "list"));
    cr_assert_null(part->key);
    cr_assert_null(part->next);
    cr_assert_null(part->parent);
    cr_assert(tree_equal(part, tree_get(root, "list")));
    struct arena small;
    arena_init(&small, 256);
    cr_assert_null(tree_copy(&small, root));
    arena_fini(&small);
}

Test(tree_build, typed_reads_say_what_was_expected_and_where)
{
    struct tree *root = from_json("{\"nodes\": {\"min\": \"two\", \"rate\": 3, \"on\": true}}");
    struct error err;
    int64_t integer = 5;
    double number = 0;
    bool boolean = false;
    const char *string = NULL;
    cr_assert_eq(tree_read_i64(tree_find(root, "nodes.min"), &integer, &err), E_INVALID_ARGUMENT);
    cr_assert_str_eq(err.text, "line 1, column 12: expected an integer, found a string");
    cr_assert_str_eq(err.field, "nodes.min");
    cr_assert_eq(integer, 5);
    cr_assert_eq(tree_read_f64(tree_find(root, "nodes.rate"), &number, &err), 0);
    cr_assert_eq(number, 3);
    cr_assert_eq(tree_read_bool(tree_find(root, "nodes.on"), &boolean, &err), 0);
    cr_assert(boolean);
    cr_assert_eq(tree_read_string(tree_find(root, "nodes.min"), &string, &err), 0);
    cr_assert_str_eq(string, "two");
    cr_assert_eq(tree_read_string(tree_find(root, "nodes.max"), &string, &err), E_INVALID_ARGUMENT);
    cr_assert_str_eq(err.text, "expected a string, found nothing");
    cr_assert_eq(tree_read_bool(root, &boolean, &err), E_INVALID_ARGUMENT);
    cr_assert_eq(tree_read_f64(tree_find(root, "nodes.on"), &number, NULL), E_INVALID_ARGUMENT);
}
