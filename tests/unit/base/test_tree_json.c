#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/buf.h"
#include "common/base/rng.h"
#include "common/base/tree.h"

static struct arena arena;
static struct error err;

static void setup(void)
{
    arena_init(&arena, 0);
}

static void teardown(void)
{
    arena_fini(&arena);
}

TestSuite(tree_json, .init = setup, .fini = teardown);

static int parse_n(const char *text, size_t size, struct tree **ret)
{
    /* An exact copy on the heap lets the address sanitizer see a read beyond the end. */
    char *copy = malloc(size ? size : 1);
    memcpy(copy, text, size);
    struct tree_input input = {.name = "a.json", .text = copy, .size = size};
    int rc = tree_parse_json(&input, &arena, ret, &err);
    free(copy);
    return rc;
}

static struct tree *parse(const char *text)
{
    struct tree *root = NULL;
    int rc = parse_n(text, strlen(text), &root);
    cr_assert_eq(rc, 0, "%s: %s", text, err.text);
    return root;
}

static void refuse(const char *text, const char *sentence)
{
    struct tree *root = NULL;
    cr_assert_eq(parse_n(text, strlen(text), &root), E_INVALID_ARGUMENT, "accepted %s", text);
    cr_assert_str_eq(err.text, sentence);
    cr_assert_null(root, "untouched on failure");
}

Test(tree_json, all_kinds_with_their_places)
{
    struct tree *root = parse("{\"a\": [1, -2.5, true, false, null],\n"
                              "  \"b\": \"\xc3\xa9\", \"c\": {}}");
    cr_assert_eq(root->kind, TREE_MAP);
    cr_assert_eq(root->count, 3);
    cr_assert_eq(tree_find(root, "a[0]")->integer, 1);
    cr_assert_eq(tree_find(root, "a[1]")->number, -2.5);
    cr_assert(tree_find(root, "a[2]")->boolean);
    cr_assert_not(tree_find(root, "a[3]")->boolean);
    cr_assert_eq(tree_find(root, "a[4]")->kind, TREE_NULL);
    struct tree *b = tree_get(root, "b");
    cr_assert_str_eq(b->string, "\xc3\xa9");
    cr_assert_eq(b->line, 2);
    cr_assert_eq(b->column, 3);
    cr_assert_eq(tree_get(root, "c")->column, 13, "columns count characters");
    cr_assert_eq(tree_get(root, "c")->count, 0);
}

Test(tree_json, scalars_may_stand_alone)
{
    cr_assert_eq(parse(" 12 ")->integer, 12);
    cr_assert_eq(parse("-0")->integer, 0);
    cr_assert_eq(parse("9223372036854775807")->integer, INT64_MAX);
    cr_assert_eq(parse("-9223372036854775808")->integer, INT64_MIN);
    cr_assert_eq(parse("1e2")->number, 100);
    cr_assert_eq(parse("1E-2")->kind, TREE_NUMBER);
    cr_assert_str_eq(parse("\"\"")->string, "");
    cr_assert_eq(parse("[]")->count, 0);
}

Test(tree_json, escapes)
{
    cr_assert_str_eq(parse("\"\\\"\\\\\\/\\b\\f\\n\\r\\t\"")->string, "\"\\/\b\f\n\r\t");
    cr_assert_str_eq(parse("\"\\u00e9\\uD83C\\uDF0D\"")->string, "\xc3\xa9\xf0\x9f\x8c\x8d");
    refuse("\"\\x\"", "a.json:1:2: a backslash that starts no escape");
    refuse("\"\\u12g4\"", "a.json:1:2: a backslash that starts no escape");
    refuse("\"\\ud83c\"", "a.json:1:2: a backslash that starts no escape");
    refuse("\"\\udf0d\"", "a.json:1:2: a backslash that starts no escape");
    refuse("\"\\ud83c\\u0041\"", "a.json:1:2: a backslash that starts no escape");
    refuse("\"\\u0000\"", "a.json:1:2: NUL characters are not allowed");
    refuse("\"\\", "a.json:1:2: a backslash that starts no escape");
    refuse("\"\\u00", "a.json:1:2: a backslash that starts no escape");
}

Test(tree_json, errors_name_the_place_and_what_was_expected)
{
    refuse("", "a.json:1:1: the text ends where a value should be");
    refuse("{", "a.json:1:2: the text ends where a key in double quotes should be");
    refuse("{\"a\":1,}", "a.json:1:8: expected a key in double quotes, found '}'");
    refuse("[1,]", "a.json:1:4: expected a value, found ']'");
    refuse("[1 2]", "a.json:1:4: expected ',' or ']', found '2'");
    refuse("{\"a\"\n 1}", "a.json:2:2: expected ':', found '1'");
    refuse("[1}", "a.json:1:3: expected ',' or ']', found '}'");
    refuse("{} x", "a.json:1:4: expected the end of the text, found 'x'");
    refuse("'a'", "a.json:1:1: expected a value, found '''");
    refuse("tru", "a.json:1:1: expected a value, found 't'");
    refuse("\"a\nb\"", "a.json:1:3: a control character in a string must be escaped");
    refuse("\"abc", "a.json:1:5: the text ends where the end of a string should be");
    refuse("/* c */ 1", "a.json:1:1: expected a value, found '/'");
    refuse("]", "a.json:1:1: expected a value, found ']'");
    refuse("NaN", "a.json:1:1: expected a value, found 'N'");
}

Test(tree_json, numbers_follow_the_grammar)
{
    static const char *const bad[] = {"01", "-", "1.", "1.e5", "1e", "1e+", "-01", "-a"};
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
        refuse(bad[i], "a.json:1:1: not a number");
    refuse(".5", "a.json:1:1: expected a value, found '.'");
    refuse("+1", "a.json:1:1: expected a value, found '+'");
    refuse("9223372036854775808", "a.json:1:1: 9223372036854775808 does not fit a 64-bit integer");
    refuse("1e999", "a.json:1:1: 1e999 does not fit a 64-bit number");
}

Test(tree_json, a_key_given_twice_is_refused_with_both_lines)
{
    refuse("{\"a\": 1,\n \"b\": 2,\n \"a\": 3}",
           "a.json:3:2: the key 'a' was already given on line 1");
    refuse("{\"\\u0061\": 1, \"a\": 3}", "a.json:1:15: the key 'a' was already given on line 1");
    parse("{\"a\": {\"a\": 1}, \"b\": {\"a\": 1}}");
}

Test(tree_json, bytes_that_are_no_text_are_refused)
{
    struct tree *root;
    cr_assert_eq(parse_n("\"a\xff\"", 4, &root), E_INVALID_ARGUMENT);
    cr_assert_str_eq(err.text, "a.json:1:3: the text is not valid UTF-8");
    cr_assert_eq(parse_n("[1,\n\0]", 6, &root), E_INVALID_ARGUMENT);
    cr_assert_str_eq(err.text, "a.json:2:1: NUL characters are not allowed");
    cr_assert_eq(parse_n("\"\xed\xa0\x80\"", 5, &root), E_INVALID_ARGUMENT);
}

Test(tree_json, limits_on_bytes_depth_and_values)
{
    struct tree *root = NULL;
    struct tree_input input = {.text = "[[1]]", .size = 5, .limits = {.depth = 2, .nodes = 3}};
    cr_assert_eq(tree_parse_json(&input, &arena, &root, &err), 0);
    input.limits.depth = 1;
    cr_assert_eq(tree_parse_json(&input, &arena, &root, &err), E_RESOURCE_EXHAUSTED);
    cr_assert_str_eq(err.text, "line 1, column 2: nested deeper than 1 levels");
    input.limits = (struct tree_limits){.nodes = 2};
    cr_assert_eq(tree_parse_json(&input, &arena, &root, &err), E_RESOURCE_EXHAUSTED);
    input.limits = (struct tree_limits){.bytes = 4};
    cr_assert_eq(tree_parse_json(&input, &arena, &root, &err), E_RESOURCE_EXHAUSTED);
    struct arena small;
    arena_init(&small, 64);
    input.limits = (struct tree_limits){0};
    cr_assert_eq(tree_parse_json(&input, &small, &root, &err), E_RESOURCE_EXHAUSTED);
    arena_fini(&small);
}

Test(tree_json, many_shallow_lists_are_not_deep)
{
    struct buf text = {0};
    buf_char(&text, '[');
    for (int i = 0; i < 100; i++)
        buf_str(&text, i ? ",[{}]" : "[{}]");
    buf_char(&text, ']');
    cr_assert_eq(parse(buf_cstr(&text))->count, 100);
    buf_fini(&text);
}

Test(tree_json, a_depth_bomb_is_refused_quickly)
{
    enum { DEPTH = 1 << 20 };
    char *bomb = malloc(DEPTH);
    struct tree *root;
    memset(bomb, '[', DEPTH);
    cr_assert_eq(parse_n(bomb, DEPTH, &root), E_RESOURCE_EXHAUSTED);
    free(bomb);
}

Test(tree_json, a_hundred_thousand_keys_in_one_line_are_read_quickly, .timeout = 10)
{
    struct buf text = {0};
    buf_char(&text, '{');
    for (int i = 0; i < 90000; i++)
        buf_printf(&text, "%s\"k%d\":1", i ? "," : "", i);
    buf_char(&text, '}');
    struct tree *root = parse(buf_cstr(&text));
    cr_assert_eq(root->count, 90000);
    buf_fini(&text);
}

Test(tree_json, damaged_documents_never_crash)
{
    static const char seed_text[] =
        "{\"name\": \"gpt\\u00e9\", \"nodes\": {\"min\": 1, \"max\": -2.5e3}, "
        "\"l\": [true, null, []]}";
    char text[sizeof(seed_text)];
    struct rng rng;
    rng_seed(&rng, 77);
    for (int round = 0; round < 20000; round++) {
        struct tree *root;
        memcpy(text, seed_text, sizeof(text));
        size_t size = 1 + rng_below(&rng, sizeof(text) - 1);
        for (uint64_t i = rng_below(&rng, 4); i > 0; i--)
            text[rng_below(&rng, size)] = "{}[]\",:\\u0e-\xff\x80 tn1"[rng_below(&rng, 19)];
        parse_n(text, size, &root);
        if (round % 100 == 0)
            arena_fini(&arena);
    }
}
