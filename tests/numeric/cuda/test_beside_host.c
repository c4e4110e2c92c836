/* Operations on elements and shapes beside the host's kernels where the cases of the table do not
 * go: special values, equal ones, and inputs that a batch lacks. */
#include <criterion/criterion.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tests/numeric/graph/harness.h"

static const char *const names[] = {
    "add",      "concat",    "convert", "dropout", "gather_rows", "gelu",  "gelu_erf", "leaky_relu",
    "multiply", "positions", "reduce",  "relu",    "rope",        "scale", "sigmoid",  "silu",
    "slice",    "subtract",  "swiglu",  "tanh",    "transpose",   "window"};

enum variant { PLAIN, SPECIAL, EQUAL, MISSING };

/* The same in both trials. */
static void input_change(const struct trial *t, enum variant variant)
{
    static const double specials[] = {NAN, INFINITY, -INFINITY, 0, -0.0, 1e-40, 300, -300, -100};
    const struct op_tensor *x = &t->call.in[0];
    bool value = x->type == WK_F32 || x->type == WK_BF16 || x->type == WK_F16;
    for (int64_t i = 0; value && variant == SPECIAL && i < x->count; i += 3)
        tensor_put(x, i, specials[i / 3 % 9]);
    for (int64_t i = 0; value && variant == EQUAL && i < x->count; i++)
        tensor_put(x, i, rint(tensor_value(x, i)));
}

/* An input that the batch may lack. */
static bool input_drop(struct trial *t)
{
    int index = t->node->row->index_input - 1;
    if (t->node->row->index_starts && index < t->node->n_in && t->call.in[index].data)
        t->call.in[index].data = NULL;
    else if (t->node->row->converts)
        t->call.in[0].data = NULL;
    else
        return false;
    return true;
}

/* Relative to the largest of all, as sums cancel; low types may be rounded to the neighbour. */
static bool is_near(const struct op_tensor *x, double a, double b, double most)
{
    double share = x->type == WK_BF16 ? 0x1p-7 : x->type == WK_F16 ? 0x1p-10 : 2e-5;
    if (isnan(a) || isnan(b))
        return isnan(a) && isnan(b);
    if (isinf(a) || isinf(b))
        return a == b;
    return fabs(a - b) <= share * fabs(b) + 2e-6 * most + 1e-36;
}

static double finite_largest(const double *x, int64_t count)
{
    double most = 0;
    for (int64_t i = 0; i < count; i++)
        most = isfinite(x[i]) && fabs(x[i]) > most ? fabs(x[i]) : most;
    return most;
}

static void expect_alike(const struct trial *t, const struct op_tensor *x,
                         const struct op_tensor *host, const char *what)
{
    double *a = tensor_doubles(x), *b = tensor_doubles(host);
    double most = finite_largest(b, x->count);
    int wrong = 0;
    for (int64_t i = 0; i < x->count; i++) {
        if (!is_near(x, a[i], b[i], most) && wrong++ < 3)
            cr_expect(false, "%s: %s %ld is %.9g, the host's %.9g", case_name(t->c), what, (long)i,
                      a[i], b[i]);
    }
    free(a);
    free(b);
}

static void host_run(struct trial *t, bool backward)
{
    const struct op_row *row = t->node->row;
    t->call.pass = &t->pass;
    size_t bytes = row->scratch_bytes ? row->scratch_bytes(&t->call, backward) : 0;
    void *scratch = aligned_alloc(64, (bytes + 64) / 64 * 64);
    cr_assert_not_null(scratch);
    t->call.scratch = scratch;
    if (backward && row->backward)
        row->backward(&t->call);
    else if (!backward && row->forward)
        row->forward(&t->call);
    free(scratch);
}

/* The host's gradients go where a trial's kernel has put its own: those are copied away first. */
static void check_backward(struct trial *t, struct trial *u, unsigned add)
{
    unsigned wanted = trial_gradients(t);
    if (!wanted)
        return;
    trial_backward(t, wanted, add);
    trial_backward(u, wanted, add);
    for (int i = 0; i < u->node->n_in; i++) {
        for (int64_t k = 0; wanted & OP_IN(i) && k < u->call.d_in[i].count; k++)
            tensor_put(&u->call.d_in[i], k, u->call.d_in[i].add ? 1 : NAN);
    }
    host_run(u, true);
    for (int i = 0; i < u->node->n_in; i++) {
        if (wanted & OP_IN(i))
            expect_alike(t, &t->call.d_in[i], &u->call.d_in[i], "gradient");
    }
}

static void check_case(const struct op_case *c, enum variant variant, enum wk_dtype type)
{
    struct trial_options options = {.samples = 3, .in_type = type, .out_type = type};
    struct trial t = trial_new(c, &options), u = trial_new(c, &options);
    input_change(&t, variant);
    input_change(&u, variant);
    bool changed = variant != MISSING || (input_drop(&t) && input_drop(&u));
    if (trial_runs(&t) && changed) {
        trial_forward(&t);
        host_run(&u, false);
        for (int i = 0; i < t.node->n_out; i++)
            expect_alike(&t, &t.call.out[i], &u.call.out[i], "result");
        for (int i = 0; i < t.node->n_out; i++) /* backward begins with the same */
            memcpy(t.call.out[i].data, u.call.out[i].data,
                   (size_t)t.call.out[i].count * wk_dtype_bytes(t.call.out[i].type));
        check_backward(&t, &u, 0);
        check_backward(&t, &u, trial_gradients(&t));
    }
    trial_free(&t);
    trial_free(&u);
}

static bool is_named(const struct op_case *c)
{
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        if (strcmp(names[i], c->row) == 0)
            return true;
    }
    return false;
}

static void check_all(enum variant variant)
{
    static const enum wk_dtype types[] = {WK_F32, WK_BF16, WK_F16};
    for (int i = 0; case_at(i); i++) {
        for (int k = 0; is_named(case_at(i)) && k < 3; k++)
            check_case(case_at(i), variant, types[k]);
    }
}

Test(cuda_beside_host, are_as_the_hosts)
{
    check_all(PLAIN);
}

Test(cuda_beside_host, of_special_values)
{
    check_all(SPECIAL);
}

Test(cuda_beside_host, of_equal_values)
{
    check_all(EQUAL);
}

Test(cuda_beside_host, of_batches_that_lack_an_input)
{
    check_all(MISSING);
}
