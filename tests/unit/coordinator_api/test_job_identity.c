/* Two submits are the same job only if every row of the table of job fields means the same. */
#include <criterion/criterion.h>
#include <string.h>

#include "common/base/arena.h"
#include "common/base/tree.h"
#include "common/base/tree_build.h"
#include "common/rpc/message.h"
#include "common/rpc/spec.h"
#include "common/settings/job_field.h"
#include "coordinator/api_rpc/intake_spec.h"

/* Every choice is the first of its row. */
static const char base[] =
    "command: [a]\nnodes: {min: 1, max: 1}\ncheckpoint: {dir: /c}\nmax_runtime: 1h\n"
    "restart: {on_failure: stop, on_no_progress: stop}\nresources: {}\n";

/* Not that of the base. */
static const char *other_text(const struct job_field *row)
{
    int last = 0;
    switch (row->form) {
    case FORM_PLAIN:
    case FORM_NAME:
        return "other";
    case FORM_PATH:
        return "/other";
    case FORM_SIZE:
        return "3GiB";
    case FORM_TIME:
        return "77m";
    case FORM_TIMES:
        return "2s..3m";
    case FORM_INTERVAL:
        return "77 steps";
    case FORM_CHOICE:
        while (row->choices[last + 1])
            last++;
        return row->choices[last];
    case FORM_PRIORITY:
        return "7";
    case FORM_SIGNAL:
        return "USR2@7s";
    }
    return "";
}

static struct tree *other_value(const struct job_field *row, struct arena *arena)
{
    struct tree *value = NULL;
    switch (row->shape) {
    case SHAPE_TEXT:
        return tree_string(arena, other_text(row));
    case SHAPE_COUNT:
    case SHAPE_NUMBER:
    case SHAPE_RANGE:
        return tree_integer(arena, 7);
    case SHAPE_SETTING:
        return tree_string(arena, "latest");
    case SHAPE_WORDS:
        value = tree_list(arena);
        cr_assert_eq(tree_list_add(value, tree_string(arena, "b")), 0);
        return value;
    case SHAPE_PAIRS:
        value = tree_map(arena);
        cr_assert_eq(tree_map_set(arena, value, "other", tree_string(arena, "name")), 0);
        return value;
    case SHAPE_SETTINGS:
        value = tree_map(arena);
        cr_assert_eq(tree_map_set(arena, value, "seed", tree_integer(arena, 7)), 0);
        return value;
    }
    return value;
}

/* The base with another value of `row`; NULL changes nothing. */
static Muster__JobSpec *spec_with(const struct job_field *row)
{
    struct arena arena = {0};
    struct tree *tree, *map;
    struct tree_input input = {.text = base, .size = strlen(base)};
    Muster__JobSpec *spec = NULL;
    struct error err = {0};
    cr_assert_eq(tree_parse_yaml(&input, &arena, &tree, &err), 0, "%s", err.text);
    if (row) {
        const char *dot = strchr(row->key, '.');
        char section[32] = "";
        map = tree;
        if (dot) {
            (void)strncat(section, row->key, (size_t)(dot - row->key));
            map = tree_get(tree, section);
            if (!map)
                cr_assert_eq(tree_map_set(&arena, tree, section, map = tree_map(&arena)), 0);
        }
        cr_assert_eq(tree_map_set(&arena, map, dot ? dot + 1 : row->key, other_value(row, &arena)),
                     0);
    }
    cr_assert_eq(spec_from_tree(&arena, tree, &spec, &err), 0, "%s", err.text);
    arena_fini(&arena);
    return spec;
}

Test(job_identity, each_row_of_the_table_is_part_of_it)
{
    Muster__JobSpec *plain = spec_with(NULL), *again = spec_with(NULL);
    cr_assert(intake_same(plain, again));
    for (int i = 0; i < JOB_FIELDS_COUNT; i++) {
        Muster__JobSpec *one = spec_with(&job_fields[i]), *two = spec_with(&job_fields[i]);
        cr_expect(intake_same(one, two), "%s", job_fields[i].key);
        cr_expect(!intake_same(plain, one), "%s means nothing", job_fields[i].key);
        rpc_message_free(one);
        rpc_message_free(two);
    }
    rpc_message_free(plain);
    rpc_message_free(again);
}
