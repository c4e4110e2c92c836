/* Six steps of each optimizer on one vector, as PyTorch took them: gpt/optimizers.json of
 * tests/reference. The settings are those the file was made with.
 */
#include <criterion/criterion.h>
#include <jansson.h>
#include <math.h>
#include <string.h>

#include "libworker/nn/model.h"
#include "libworker/optim/optimizer.h"
#include "tests/lib/reference.h"
#include "tests/lib/rounding.h"

enum { COUNT = 7, STEPS = 6 };

static const double ROUNDINGS = 8; /* of one update */

static const json_t *entry_named(const json_t *data, const char *name)
{
    for (size_t i = 0; i < json_array_size(data); i++) {
        const json_t *entry = json_array_get(data, i);
        if (!strcmp(json_string_value(json_object_get(entry, "name")), name))
            return entry;
    }
    cr_assert_fail("no optimizer %s", name);
    return NULL;
}

static void read_floats(const json_t *array, float ret_values[COUNT])
{
    cr_assert_eq(json_array_size(array), COUNT);
    for (size_t i = 0; i < COUNT; i++)
        ret_values[i] = (float)json_number_value(json_array_get(array, i));
}

/* Takes the optimizer. */
static void follow(const char *name, struct wk_optimizer *o)
{
    static const struct param vector = {.name = "x", .dims = 1, .count = COUNT, .decay = true};
    json_t *data = reference_json("gpt/optimizers.json");
    const json_t *entry = entry_named(data, name);
    float x[COUNT], grads[COUNT], after[COUNT];
    cr_assert_eq(optimizer_bind(o, &vector, 1, 0, COUNT, NULL), 0);
    read_floats(json_object_get(entry, "start"), x);
    cr_assert_eq(json_array_size(json_object_get(entry, "grads")), STEPS);
    for (size_t t = 0; t < STEPS; t++) {
        read_floats(json_array_get(json_object_get(entry, "grads"), t), grads);
        read_floats(json_array_get(json_object_get(entry, "after"), t), after);
        cr_assert_eq(optimizer_step(o, x, grads, 1, NULL), 0);
        for (int i = 0; i < COUNT; i++)
            cr_expect_float_eq(x[i], after[i],
                               rounding_bound(ROUNDINGS * ((double)t + 1)) *
                                   fmax(1, fabs((double)after[i])),
                               "%s, step %zu: x[%d] = %.8g, not %.8g", name, t, i, x[i], after[i]);
    }
    wk_optimizer_free(o);
    json_decref(data);
}

static void follow_sgd(const char *name, struct wk_sgd_options options)
{
    struct wk_optimizer *o;
    cr_assert_eq(wk_sgd_new(&options, &o), 0);
    follow(name, o);
}

static void follow_adamw(const char *name, struct wk_adamw_options options)
{
    struct wk_optimizer *o;
    cr_assert_eq(wk_adamw_new(&options, &o), 0);
    follow(name, o);
}

Test(reference, sgd)
{
    follow_sgd("sgd", (struct wk_sgd_options){.rate = 0.1});
}

Test(reference, sgd_with_momentum_and_decay)
{
    follow_sgd("sgd_momentum",
               (struct wk_sgd_options){.rate = 0.1, .momentum = 0.9, .weight_decay = 0.01});
}

Test(reference, sgd_with_nesterov_momentum)
{
    follow_sgd("sgd_nesterov",
               (struct wk_sgd_options){.rate = 0.1, .momentum = 0.9, .nesterov = true});
}

Test(reference, adam)
{
    struct wk_optimizer *o;
    struct wk_adamw_options options = {0.01, 0.9, 0.999, 1e-8, 0};
    cr_assert_eq(wk_adam_new(&options, &o), 0);
    follow("adam", o);
}

Test(reference, adamw)
{
    follow_adamw("adamw", (struct wk_adamw_options){0.01, 0.9, 0.95, 1e-8, 0.1});
}
