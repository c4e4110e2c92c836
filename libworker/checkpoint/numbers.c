#include <worker/error.h>

#include "common/base/hex.h"
#include "common/base/tree.h"
#include "libworker/checkpoint/file.h"
#include "libworker/checkpoint/numbers.h"

enum { VERSION = 1 };

static void write_list(struct buf *out, const char *name, const int64_t *values, int64_t count)
{
    (void)buf_printf(out, "  \"%s\": [", name);
    for (int64_t i = 0; i < count; i++)
        (void)buf_printf(out, "%s%lld", i ? ", " : "", (long long)values[i]);
    (void)buf_str(out, "],\n");
}

/* `in` precedes each name. Only runs in fp16 have a loss scale. */
static void write_unit(struct buf *out, const char *in, const struct unit_numbers *unit)
{
    if (!(unit->loss_scale > 0))
        return;
    (void)buf_printf(out, "%s\"loss_scale\": %.17g,\n", in, unit->loss_scale);
    (void)buf_printf(out, "%s\"clean_steps\": %lld,\n", in, (long long)unit->clean_steps);
    (void)buf_printf(out, "%s\"skipped_steps\": %lld,\n", in, (long long)unit->skipped_steps);
}

static void write_units(struct buf *out, const struct train_numbers *numbers)
{
    (void)buf_str(out, "  \"units\": [");
    for (int64_t i = 0; i < numbers->n_units; i++) {
        const struct unit_numbers *unit = &numbers->units[i];
        (void)buf_str(out, i ? ",\n    {\n" : "\n    {\n");
        (void)buf_printf(out, "      \"optimizer_steps\": %lld,\n",
                         (long long)unit->optimizer_steps);
        write_unit(out, "      ", unit);
        (void)buf_printf(out, "      \"done\": %lld,\n      \"taken\": %lld\n    }",
                         (long long)unit->done, (long long)unit->taken);
    }
    (void)buf_str(out, "\n  ],\n");
}

int numbers_write(const struct train_numbers *numbers, struct buf *out)
{
    char rng[2 * sizeof(numbers->rng) + 1];
    const struct unit_numbers *single = numbers->n_units > 1 ? NULL : &numbers->units[0];
    hex_encode(&numbers->rng, sizeof(numbers->rng), rng);
    (void)buf_printf(out, "{\n  \"version\": %d,\n  \"step\": %lld,\n", VERSION,
                     (long long)numbers->step);
    (void)buf_printf(out, "  \"total_steps\": %lld,\n", (long long)numbers->total_steps);
    if (single)
        (void)buf_printf(out, "  \"optimizer_steps\": %lld,\n", (long long)single->optimizer_steps);
    else
        write_units(out, numbers);
    write_list(out, "loaders", numbers->loaders, numbers->n_loaders);
    write_list(out, "schedulers", numbers->schedulers, numbers->n_schedulers);
    if (single)
        write_unit(out, "  ", single);
    (void)buf_printf(out, "  \"rng\": \"%s\"\n}\n", rng);
    return buf_failed(out) ? WK_ENOMEM : 0;
}

static int read_count(const struct tree *root, const char *name, int64_t *ret, struct error *err)
{
    if (tree_read_i64(tree_get(root, name), ret, err))
        return error_set(err, WK_EIO, "it has no number \"%s\"", name);
    if (*ret < 0)
        return error_set(err, WK_EIO, "\"%s\" is negative", name);
    return 0;
}

static int read_list(const struct tree *root, const char *name, int64_t *ret, int64_t *ret_count,
                     struct error *err)
{
    const struct tree *list = tree_get(root, name), *node;
    if (!list || list->kind != TREE_LIST || list->count > NUMBERS_LOADERS_MAX)
        return error_set(err, WK_EIO, "it has no list \"%s\" of at most %d", name,
                         NUMBERS_LOADERS_MAX);
    *ret_count = 0;
    tree_each(node, list) {
        if (tree_read_i64(node, &ret[*ret_count], err) || ret[*ret_count] < 0)
            return error_set(err, WK_EIO, "\"%s\" has entries that are not counts", name);
        ++*ret_count;
    }
    return 0;
}

/* Only runs in fp16 write it. */
static int read_scale(const struct tree *node, struct unit_numbers *unit, struct error *err)
{
    const struct tree *scale = tree_get(node, "loss_scale");
    if (!scale)
        return 0;
    if (tree_read_f64(scale, &unit->loss_scale, err) || !(unit->loss_scale > 0))
        return error_set(err, WK_EIO, "\"loss_scale\" is no positive number");
    int rc = read_count(node, "clean_steps", &unit->clean_steps, err);
    if (rc)
        return rc;
    return read_count(node, "skipped_steps", &unit->skipped_steps, err);
}

static int read_unit(const struct tree *node, struct unit_numbers *unit, struct error *err)
{
    int rc = read_count(node, "optimizer_steps", &unit->optimizer_steps, err);
    if (rc)
        return rc;
    return read_scale(node, unit, err);
}

static int read_units(const struct tree *root, struct train_numbers *numbers, struct error *err)
{
    const struct tree *list = tree_get(root, "units"), *node;
    if (!list) {
        numbers->n_units = 1;
        return read_unit(root, &numbers->units[0], err);
    }
    if (list->kind != TREE_LIST || list->count < 2 || list->count > NUMBERS_UNITS_MAX)
        return error_set(err, WK_EIO, "\"units\" is no list of 2 to %d", NUMBERS_UNITS_MAX);
    tree_each(node, list) {
        struct unit_numbers *unit = &numbers->units[numbers->n_units++];
        int rc = read_unit(node, unit, err);
        if (!rc)
            rc = read_count(node, "done", &unit->done, err);
        if (!rc)
            rc = read_count(node, "taken", &unit->taken, err);
        if (!rc && unit->taken > unit->done)
            rc = error_set(err, WK_EIO, "a unit has more windows taken than done");
        if (rc)
            return rc;
    }
    return 0;
}

static int read_all(const struct tree *root, struct train_numbers *numbers, struct error *err)
{
    int64_t version = 0;
    int rc = read_count(root, "version", &version, err);
    if (!rc && version != VERSION)
        rc = error_set(err, WK_EIO, "it is of version %lld, this is %d", (long long)version,
                       VERSION);
    if (!rc)
        rc = read_count(root, "step", &numbers->step, err);
    if (!rc)
        rc = read_count(root, "total_steps", &numbers->total_steps, err);
    if (!rc)
        rc = read_units(root, numbers, err);
    if (!rc)
        rc = read_list(root, "loaders", numbers->loaders, &numbers->n_loaders, err);
    if (!rc)
        rc = read_list(root, "schedulers", numbers->schedulers, &numbers->n_schedulers, err);
    const char *rng;
    if (!rc && (tree_read_string(tree_get(root, "rng"), &rng, err) ||
                hex_decode(rng, &numbers->rng, sizeof(numbers->rng))))
        rc = error_set(err, WK_EIO, "it has no state of the random generator");
    return rc;
}

int numbers_parse(const char *text, size_t size, struct train_numbers *ret, struct error *err)
{
    struct arena arena = {0};
    struct tree_input input = {.name = "state.json", .text = text, .size = size};
    struct tree *root;
    struct train_numbers numbers = {0};
    int rc = tree_parse_json(&input, &arena, &root, err) ? file_unparsed(&arena, err) : 0;
    if (!rc)
        rc = read_all(root, &numbers, err);
    arena_fini(&arena);
    if (!rc)
        *ret = numbers;
    return rc;
}
