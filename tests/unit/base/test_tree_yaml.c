#include <criterion/criterion.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/rng.h"
#include "common/base/str.h"
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

TestSuite(tree_yaml, .init = setup, .fini = teardown);

static int parse_n(const char *text, size_t size, struct tree **ret)
{
    char *copy = malloc(size ? size : 1);
    memcpy(copy, text, size);
    struct tree_input input = {.name = "job.yaml", .text = copy, .size = size};
    int rc = tree_parse_yaml(&input, &arena, ret, &err);
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

Test(tree_yaml, a_job_spec_with_places)
{
    struct tree *root = parse("name: gpt-kjv\n"
                              "command: [build/examples/gpt, --data, kjv.txt]\n"
                              "nodes: {min: 1, max: 2}   # or a number\n"
                              "restart:\n"
                              "  backoff: 1s..1m\n"
                              "  max: 5\n"
                              "list:\n"
                              "- a\n"
                              "- b: 1\n");
    cr_assert_str_eq(tree_find(root, "name")->string, "gpt-kjv");
    cr_assert_str_eq(tree_find(root, "command[2]")->string, "kjv.txt");
    cr_assert_eq(tree_find(root, "nodes.max")->integer, 2);
    cr_assert_eq(tree_find(root, "nodes.max")->line, 3);
    cr_assert_eq(tree_find(root, "nodes.max")->column, 17);
    cr_assert_str_eq(tree_find(root, "restart.backoff")->string, "1s..1m");
    cr_assert_eq(tree_find(root, "list[1].b")->integer, 1);
    cr_assert_eq(tree_find(root, "list[1].b")->line, 9);
}

static enum tree_kind kind_of(const char *text)
{
    return parse(text)->kind;
}

Test(tree_yaml, plain_scalars_follow_the_core_schema_of_1_2)
{
    static const char *const strings[] = {
        "no", "yes", "on", "off", "y",   "1:30",  "1_000", "0b1", "tRUE", "-0x1",
        "0x", "0o8", "1e", "nan", "inf", "1.2.3", "-",     "+",   "2GiB", "2026-11-20"};
    for (size_t i = 0; i < sizeof(strings) / sizeof(strings[0]); i++)
        if (strcmp(strings[i], "-") != 0)
            cr_assert_str_eq(parse(strings[i])->string, strings[i]);
    cr_assert_eq(kind_of("true"), TREE_BOOL);
    cr_assert(parse("True")->boolean);
    cr_assert_not(parse("FALSE")->boolean);
    cr_assert_eq(kind_of("~"), TREE_NULL);
    cr_assert_eq(kind_of("null"), TREE_NULL);
    cr_assert_eq(tree_get(parse("a:"), "a")->kind, TREE_NULL);
    cr_assert_eq(parse("0x1F")->integer, 31);
    cr_assert_eq(parse("0o17")->integer, 15);
    cr_assert_eq(parse("017")->integer, 17);
    cr_assert_eq(parse("-12")->integer, -12);
    cr_assert_eq(parse("1.5")->number, 1.5);
    cr_assert_eq(parse("1e3")->kind, TREE_NUMBER);
    cr_assert_eq(parse("-.inf")->number, -INFINITY);
    cr_assert(isnan(parse(".NaN")->number));
    cr_assert_eq(parse("0x7fffffffffffffff")->integer, INT64_MAX);
}

Test(tree_yaml, quoted_scalars_and_blocks_are_strings)
{
    cr_assert_str_eq(parse("'true'")->string, "true");
    cr_assert_str_eq(parse("\"12\"")->string, "12");
    cr_assert_str_eq(parse("\"\"")->string, "");
    cr_assert_str_eq(parse("''")->string, "");
    cr_assert_str_eq(parse("|\n  a\n  b\n")->string, "a\nb\n");
    cr_assert_str_eq(parse(">\n  12\n")->string, "12\n");
    cr_assert_str_eq(parse("\"\\u00e9\"")->string, "\xc3\xa9");
}

Test(tree_yaml, empty_documents_are_null)
{
    cr_assert_eq(kind_of(""), TREE_NULL);
    cr_assert_eq(kind_of("# only a comment\n"), TREE_NULL);
    cr_assert_eq(kind_of("---\n"), TREE_NULL);
}

Test(tree_yaml, json_is_yaml)
{
    struct tree *root = parse("{\"a\": [1, \"x\"], \"b\": null}");
    cr_assert_str_eq(tree_find(root, "a[1]")->string, "x");
}

Test(tree_yaml, what_we_do_not_support_is_said_where_it_stands)
{
    refuse("a: &x 1\n", "job.yaml:1:4: anchors ('&name') are not supported");
    refuse("b: *x\n", "job.yaml:1:4: aliases ('*name') are not supported");
    refuse("a: !!int 1\n", "job.yaml:1:4: tags ('!type') are not supported");
    refuse("a: !x [1]\n", "job.yaml:1:4: tags ('!type') are not supported");
    refuse("a: 1\n---\nb: 2\n",
           "job.yaml:2:1: only one document is read, and here a second one starts");
    refuse("a: 1\n<<: {b: 1}\n", "job.yaml:2:1: merge keys ('<<') are not supported");
    refuse("{[1]: 2}\n", "job.yaml:1:2: a key must be a word, not a list or a map");
    refuse("{a: {b: 1}, {c: 2}: 3}\n", "job.yaml:1:13: a key must be a word, not a list or a map");
    refuse("?\n: 1\n", "job.yaml:1:2: a key is missing before ':'");
    refuse("a: 9223372036854775808\n",
           "job.yaml:1:4: 9223372036854775808 does not fit a 64-bit number");
    cr_assert_str_eq(err.hint, "put it in quotes if it is a text");
    refuse("a: \"x\\0y\"\n", "job.yaml:1:4: NUL characters are not allowed");
}

Test(tree_yaml, a_key_given_twice_is_refused)
{
    refuse("a: 1\nb: 2\n\"a\": 3\n", "job.yaml:3:1: the key 'a' was already given on line 1");
}

Test(tree_yaml, syntax_errors_have_a_place)
{
    struct tree *root;
    cr_assert_eq(parse_n("a: [1\nb: 2\n", 11, &root), E_INVALID_ARGUMENT);
    cr_assert(str_starts(err.text, "job.yaml:2:2: "), "%s", err.text);
    cr_assert_eq(parse_n("a:\n\t- 1\n", 8, &root), E_INVALID_ARGUMENT);
    cr_assert(str_starts(err.text, "job.yaml:2:1: "), "%s", err.text);
    cr_assert_neq(err.hint[0], '\0');
    cr_assert_eq(parse_n("a: \xff\n", 5, &root), E_INVALID_ARGUMENT);
    cr_assert_str_eq(err.text, "job.yaml:1:4: the text is not valid UTF-8");
    cr_assert_eq(parse_n("a: \0\n", 5, &root), E_INVALID_ARGUMENT);
}

Test(tree_yaml, depth_bombs_in_both_styles_are_refused_quickly, .timeout = 10)
{
    enum { DEPTH = 1 << 18 };
    char *bomb = malloc(2 * DEPTH);
    struct tree *root;
    memset(bomb, '[', 2 * DEPTH);
    cr_assert_eq(parse_n(bomb, 2 * DEPTH, &root), E_RESOURCE_EXHAUSTED);
    for (int i = 0; i < DEPTH; i++)
        memcpy(bomb + 2 * i, "- ", 2);
    cr_assert_eq(parse_n(bomb, 2 * DEPTH, &root), E_RESOURCE_EXHAUSTED);
    for (int i = 0; i < DEPTH; i++)
        memcpy(bomb + 2 * i, "? ", 2);
    cr_assert_neq(parse_n(bomb, 2 * DEPTH, &root), 0);
    free(bomb);
}

Test(tree_yaml, damaged_documents_never_crash, .timeout = 30)
{
    static const char seed_text[] =
        "name: gpt\nnodes: {min: 1, max: 2}\nlist:\n- a\n- b: |\n    text\n  c: \"q\\u00e9\"\n";
    char text[sizeof(seed_text)];
    struct rng rng;
    rng_seed(&rng, 78);
    for (int round = 0; round < 10000; round++) {
        struct tree *root;
        memcpy(text, seed_text, sizeof(text));
        size_t size = 1 + rng_below(&rng, sizeof(text) - 1);
        for (uint64_t i = rng_below(&rng, 5); i > 0; i--)
            text[rng_below(&rng, size)] = "{}[]\",:\\-?|>&*!%@#'\n\t \xff<"[rng_below(&rng, 24)];
        parse_n(text, size, &root);
        if (round % 100 == 0)
            arena_fini(&arena);
    }
}
