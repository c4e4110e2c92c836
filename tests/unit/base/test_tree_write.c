#include <criterion/criterion.h>
#include <math.h>
#include <string.h>

#include "common/base/rng.h"
#include "common/base/str.h"
#include "common/base/tree.h"
#include "common/base/tree_build.h"
#include "common/base/tree_write.h"

static struct arena arena;

static void setup(void)
{
    arena_init(&arena, 512 << 20);
}

static void teardown(void)
{
    arena_fini(&arena);
}

TestSuite(tree_write, .init = setup, .fini = teardown);

static struct tree *from_json(const char *text)
{
    struct tree *root = NULL;
    struct tree_input input = {.text = text, .size = strlen(text)};
    cr_assert_eq(tree_parse_json(&input, &arena, &root, NULL), 0);
    return root;
}

static void expect(const char *source, const char *compact, const char *pretty, const char *yaml)
{
    struct buf out = {0};
    struct tree *root = from_json(source);
    cr_assert_eq(tree_write_json(root, TREE_COMPACT, &out, NULL), 0);
    cr_assert_str_eq(buf_cstr(&out), compact);
    buf_clear(&out);
    cr_assert_eq(tree_write_json(root, TREE_PRETTY, &out, NULL), 0);
    cr_assert_str_eq(buf_cstr(&out), pretty);
    buf_clear(&out);
    cr_assert_eq(tree_write_yaml(root, &out, NULL), 0);
    cr_assert_str_eq(buf_cstr(&out), yaml);
    buf_fini(&out);
}

Test(tree_write, shapes)
{
    expect("[]", "[]", "[]", "[]\n");
    expect("\"a b\"", "\"a b\"", "\"a b\"", "a b\n");
    expect("{\"a\":1,\"b\":{}}", "{\"a\":1,\"b\":{}}", "{\n  \"a\": 1,\n  \"b\": {}\n}",
           "a: 1\nb: {}\n");
    expect("{\"a\":{\"b\":[1,{\"c\":true,\"d\":null},[2,3]],\"e\":0.5},\"f\":[]}",
           "{\"a\":{\"b\":[1,{\"c\":true,\"d\":null},[2,3]],\"e\":0.5},\"f\":[]}",
           "{\n  \"a\": {\n    \"b\": [\n      1,\n      {\n        \"c\": true,\n        \"d\": "
           "null\n      },\n      [\n        2,\n        3\n      ]\n    ],\n    \"e\": 0.5\n  "
           "},\n  \"f\": []\n}",
           "a:\n  b:\n    - 1\n    - c: true\n      d: null\n    - - 2\n      - 3\n"
           "  e: 0.5\nf: []\n");
}

Test(tree_write, a_part_of_a_tree_is_written_without_its_key_and_siblings)
{
    struct buf out = {0};
    struct tree *root = from_json("{\"a\":{\"b\":1},\"c\":2}");
    cr_assert_eq(tree_write_json(tree_get(root, "a"), TREE_COMPACT, &out, NULL), 0);
    cr_assert_str_eq(buf_cstr(&out), "{\"b\":1}");
    buf_clear(&out);
    cr_assert_eq(tree_write_yaml(tree_get(root, "a"), &out, NULL), 0);
    cr_assert_str_eq(buf_cstr(&out), "b: 1\n");
    buf_fini(&out);
}

Test(tree_write, numbers_json_cannot_say_are_proto3_strings)
{
    struct buf out = {0};
    struct tree *list = tree_list(&arena);
    tree_list_add(list, tree_number(&arena, NAN));
    tree_list_add(list, tree_number(&arena, INFINITY));
    tree_list_add(list, tree_number(&arena, -INFINITY));
    tree_list_add(list, tree_number(&arena, 2));
    cr_assert_eq(tree_write_json(list, TREE_COMPACT, &out, NULL), 0);
    cr_assert_str_eq(buf_cstr(&out), "[\"NaN\",\"Infinity\",\"-Infinity\",2.0]");
    buf_clear(&out);
    cr_assert_eq(tree_write_yaml(list, &out, NULL), 0);
    cr_assert_str_eq(buf_cstr(&out), "- .nan\n- .inf\n- -.inf\n- 2.0\n");
    buf_fini(&out);
}

Test(tree_write, what_cannot_be_written_is_refused)
{
    struct buf out = {0}, small = {.max_bytes = 3};
    struct error err;
    struct tree *map = tree_map(&arena);
    tree_map_set(&arena, map, "bad", tree_string(&arena, "\xff"));
    cr_assert_eq(tree_write_json(map, TREE_COMPACT, &out, &err), E_INVALID_ARGUMENT);
    cr_assert_str_eq(err.field, "bad");
    cr_assert_eq(tree_write_yaml(map, &out, &err), E_INVALID_ARGUMENT);
    struct tree *odd = tree_map(&arena);
    tree_map_set(&arena, odd, "\xc3", tree_null(&arena));
    cr_assert_eq(tree_write_json(odd, TREE_COMPACT, &out, &err), E_INVALID_ARGUMENT);
    cr_assert_eq(tree_write_yaml(odd, &out, &err), E_INVALID_ARGUMENT);
    cr_assert_eq(tree_write_json(from_json("[1,2]"), TREE_COMPACT, &small, &err),
                 E_RESOURCE_EXHAUSTED);
    struct tree *deep = tree_list(&arena), *root = deep;
    for (int i = 0; i < TREE_WRITE_DEPTH_MAX; i++) {
        struct tree *next = tree_list(&arena);
        tree_list_add(deep, next);
        deep = next;
    }
    cr_assert_eq(tree_write_json(root, TREE_COMPACT, &out, &err), 0);
    tree_list_add(deep, tree_null(&arena));
    cr_assert_eq(tree_write_json(root, TREE_COMPACT, &out, &err), E_INVALID_ARGUMENT);
    char key[1100];
    memset(key, 'k', sizeof(key) - 1);
    key[sizeof(key) - 1] = '\0';
    struct tree *wide = tree_map(&arena);
    tree_map_set(&arena, wide, key, tree_null(&arena));
    cr_assert_eq(tree_write_yaml(wide, &out, &err), E_INVALID_ARGUMENT);
    cr_assert_eq(tree_write_json(wide, TREE_COMPACT, &out, &err), 0);
    buf_fini(&out);
    buf_fini(&small);
}

Test(tree_write, yaml_quotes_what_would_read_as_something_else)
{
    static const char *const quoted[] = {
        "true",       "no", "Yes",  "off", "null", "~",  "12",   "1.5",  "0x1f", "1:30",    "",
        " a",         "a ", "a: b", "a:",  "- a",  "#a", "a #b", "*a",   "&a",   "!a",      "{a}",
        "[a]",        "\n", "a\tb", "'a",  "\"",   "%a", "@a",   "`a",   "|",    ">",       "---",
        "2026-11-20", "=",  "<<",   "?",   ",",    "\\", "-",    ".inf", "1e5",  "\xc3\xa9"};
    static const char *const plain[] = {
        "gpt-kjv", "build/examples/gpt", "a b", "1s..1m", "2GiB", "data",
        "a:b",     "http://x:1/y",       "_x",  "/tmp"};
    struct buf out = {0};
    for (size_t i = 0; i < sizeof(quoted) / sizeof(quoted[0]); i++) {
        buf_clear(&out);
        cr_assert_eq(tree_write_yaml(tree_string(&arena, quoted[i]), &out, NULL), 0);
        cr_assert_eq(out.data[0], '"', "%s", out.data);
    }
    for (size_t i = 0; i < sizeof(plain) / sizeof(plain[0]); i++) {
        buf_clear(&out);
        cr_assert_eq(tree_write_yaml(tree_string(&arena, plain[i]), &out, NULL), 0);
        cr_assert_neq(out.data[0], '"', "%s", out.data);
    }
    buf_fini(&out);
}

/* Texts made of everything that has a meaning somewhere. */
static const char *random_text(struct rng *rng)
{
    static const char *const pieces[] = {"a",
                                         "Z",
                                         "0",
                                         "9",
                                         " ",
                                         ":",
                                         "-",
                                         "#",
                                         "\n",
                                         "\t",
                                         "\"",
                                         "'",
                                         "\\",
                                         "{",
                                         "]",
                                         ",",
                                         "&",
                                         "*",
                                         "!",
                                         "%",
                                         "@",
                                         "`",
                                         "|",
                                         ">",
                                         "?",
                                         "~",
                                         "\x01",
                                         "\x7f",
                                         "\xc2\x85",
                                         "\xc2\xa0",
                                         "\xe2\x80\xa8",
                                         "\xef\xbb\xbf",
                                         "\xef\xbf\xbf",
                                         "\xf0\x9f\x8c\x8d",
                                         "\r",
                                         "true",
                                         "null",
                                         "1.5",
                                         ".",
                                         "=",
                                         "<<",
                                         "..."};
    char text[128] = "";
    for (uint64_t n = rng_below(rng, 7); n > 0; n--) {
        const char *piece = pieces[rng_below(rng, sizeof(pieces) / sizeof(pieces[0]))];
        memcpy(text + strlen(text), piece, strlen(piece) + 1);
    }
    return arena_strdup(&arena, text);
}

static struct tree *random_tree(struct rng *rng, int depth)
{
    uint64_t kind = rng_below(rng, depth ? 8 : 5);
    if (kind == 0)
        return tree_null(&arena);
    if (kind == 1)
        return tree_bool(&arena, rng_chance(rng, 0.5));
    if (kind == 2)
        return tree_integer(&arena, (int64_t)rng_next(rng) >> rng_below(rng, 64));
    if (kind == 3)
        return tree_number(&arena, (rng_double(rng) - 0.5) * (double)rng_below(rng, 1000000));
    if (kind == 4)
        return tree_string(&arena, random_text(rng));
    struct tree *node = kind == 5 ? tree_list(&arena) : tree_map(&arena);
    for (uint64_t n = rng_below(rng, 4); n > 0; n--) {
        struct tree *child = random_tree(rng, depth - 1);
        if (kind == 5)
            tree_list_add(node, child);
        else
            tree_map_set(&arena, node, random_text(rng), child);
    }
    return node;
}

Test(tree_write, random_trees_read_back_equal_in_every_style)
{
    struct rng rng;
    rng_seed(&rng, 2026);
    for (int round = 0; round < 5000; round++) {
        struct tree *tree = random_tree(&rng, 5), *back = NULL;
        struct error err = {0};
        for (int style = 0; style < 3; style++) {
            struct buf out = {0};
            int rc = style < 2 ? tree_write_json(tree, (enum tree_style)style, &out, &err)
                               : tree_write_yaml(tree, &out, &err);
            cr_assert_eq(rc, 0, "%s", err.text);
            struct tree_input input = {.text = buf_cstr(&out), .size = out.size};
            rc = style < 2 ? tree_parse_json(&input, &arena, &back, &err)
                           : tree_parse_yaml(&input, &arena, &back, &err);
            cr_assert_eq(rc, 0, "round %d: %s\n%s", round, err.text, buf_cstr(&out));
            cr_assert(tree_equal(tree, back), "round %d:\n%s", round, buf_cstr(&out));
            buf_fini(&out);
        }
        arena_fini(&arena);
    }
}
