/* Walks the table of operations: what every row promises, on each of its cases. */
#include <criterion/criterion.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tests/lib/rounding.h"
#include "tests/numeric/graph/harness.h"

#define EACH_CASE(c)                                                                               \
    for (int i_ = 0; case_at(i_); i_++)                                                            \
        for (const struct op_case *c = case_at(i_); c; c = NULL)

static const int64_t SAMPLES = 3;

static double roundings_of(const struct op_case *c)
{
    return c->roundings > 0 ? c->roundings : 8;
}

static bool runs(const struct trial *t)
{
    return trial_runs(t);
}

/* Expect x to be y within `share` of y's largest, and within `each` of each element. */
static void expect_near(const struct op_tensor *x, const double *y, const double bounds[2],
                        const char *what)
{
    double most = largest_of(y, x->count);
    for (int64_t i = 0; i < x->count; i++) {
        double apart = fabs(tensor_value(x, i) - y[i]);
        bool near = apart <= bounds[0] * most + bounds[1] * fabs(y[i]);
        if (near || (isnan(y[i]) && isnan(tensor_value(x, i))))
            continue;
        cr_expect(false, "%s: element %ld is %.9g, not %.9g (off by %.2g, bound %.2g)", what,
                  (long)i, tensor_value(x, i), y[i], apart,
                  bounds[0] * most + bounds[1] * fabs(y[i]));
    }
}

static bool same_bits(const struct op_tensor *x, const struct op_tensor *y)
{
    return x->type == y->type && x->count == y->count &&
           !memcmp(x->data, y->data, (size_t)x->count * wk_dtype_bytes(x->type));
}

Test(graph_table, every_row_has_a_case)
{
    for (int i = 0; op_row_at(i); i++) {
        bool found = false;
        EACH_CASE(c)
        found |= !strcmp(c->row, op_row_at(i)->name);
        cr_expect(found, "%s has no case", op_row_at(i)->name);
        for (int k = 0; k < i; k++)
            cr_expect_str_neq(op_row_at(i)->name, op_row_at(k)->name);
    }
}

Test(graph_table, a_row_says_what_it_needs)
{
    EACH_CASE(c)
    {
        struct trial t = trial_new(c, &(struct trial_options){.samples = SAMPLES});
        const struct op_row *row = t.node->row;
        cr_expect(row->view || row->meets || row->forward, "%s: no forward kernel", row->name);
        cr_expect(row->view || row->meets || !trial_gradients(&t) || row->backward,
                  "%s: no backward kernel", row->name);
        cr_expect(row->cuts & OP_CUT_SAMPLES || c->mixes, "%s: cuts", case_name(c));
        cr_expect(!t.node->attributes || row->attributes, "%s: its attributes have no names",
                  case_name(c));
        trial_free(&t);
    }
}

/* Every build of the kernels, against loops in double. */
Test(graph_table, forward_is_the_reference)
{
    EACH_CASE(c)
    {
        for (int v = 0; trial_kernels.table(v); v++) {
            struct trial t = trial_new(
                c, &(struct trial_options){.samples = SAMPLES, .kernels = trial_kernels.table(v)});
            if (runs(&t)) {
                double *expected = trial_reference(&t, -1, 0, 0);
                trial_forward(&t);
                expect_near(&t.call.out[0], expected,
                            (double[]){rounding_bound(roundings_of(c)), 0}, case_name(c));
                free(expected);
            }
            trial_free(&t);
        }
    }
}

/* The slope of sum(d_out * out) along one element, by differences of the reference: in double, so
 * the step is small and what is left is its square. */
static double slope_of(const struct trial *t, int input, int64_t element)
{
    double step = t->c->step > 0 ? t->c->step : 1e-4, sum = 0;
    double *above = trial_reference(t, input, element, step);
    double *below = trial_reference(t, input, element, -step);
    for (int64_t i = 0; i < t->call.out[0].count; i++)
        sum += tensor_value(&t->call.d_out, i) * (above[i] - below[i]);
    free(above);
    free(below);
    return sum / (2 * step);
}

/* All elements of a small gradient; of a large one some, spread by a stride that is odd. */
static void expect_slopes(struct trial *t, int input, const struct op_tensor *gradient, double base)
{
    enum { PLACES = 48 };
    double bound = rounding_bound(roundings_of(t->c)) + (t->c->slope > 0 ? t->c->slope : 1e-6);
    double *all = tensor_doubles(gradient);
    double most = fmax(largest_of(all, gradient->count), t->c->terms);
    int64_t stride = gradient->count > PLACES ? gradient->count / PLACES | 1 : 1;
    for (int64_t k = 0; k < gradient->count; k += stride) {
        double slope = base + slope_of(t, input, k);
        if (fabs(all[k] - slope) <= bound * most)
            continue;
        cr_expect(false, "%s: gradient %d, element %ld is %.9g, not %.9g; bound %.2g",
                  case_name(t->c), input, (long)k, all[k], slope, bound * most);
    }
    free(all);
}

Test(graph_table, backward_is_the_slope)
{
    EACH_CASE(c)
    {
        for (int v = 0; trial_kernels.table(v); v++) {
            struct trial t = trial_new(
                c, &(struct trial_options){.samples = SAMPLES, .kernels = trial_kernels.table(v)});
            unsigned gradients = trial_gradients(&t), params = trial_params(&t);
            if (runs(&t)) {
                trial_forward(&t);
                trial_backward(&t, gradients, params);
            }
            for (int i = 0; runs(&t) && i < t.node->n_in; i++) {
                if (gradients & OP_IN(i))
                    expect_slopes(&t, i, &t.call.d_in[i], params & OP_IN(i) ? 1 : 0);
                if (trial_passed(&t) & OP_IN(i))
                    expect_slopes(&t, i, &t.call.d_out, 0);
            }
            trial_free(&t);
        }
    }
}

/* What is not differentiable, or not in `keeps`, is not read: NaN there changes no bit. */
Test(graph_table, keeps_is_all_that_backward_reads)
{
    EACH_CASE(c)
    {
        struct trial t = trial_new(c, &(struct trial_options){.samples = SAMPLES});
        struct trial u = trial_new(c, &(struct trial_options){.samples = SAMPLES});
        if (runs(&t)) {
            unsigned gradients = trial_gradients(&t), params = trial_params(&t);
            trial_forward(&t);
            trial_forward(&u);
            trial_poison(&u, trial_keeps(&u));
            trial_backward(&t, gradients, params);
            trial_backward(&u, gradients, params);
            for (int i = 0; i < t.node->n_in; i++) {
                if (gradients & OP_IN(i))
                    cr_expect(same_bits(&t.call.d_in[i], &u.call.d_in[i]), "%s: input %d",
                              case_name(c), i);
            }
        }
        trial_free(&t);
        trial_free(&u);
    }
}

static void train_alone(struct trial *t, int input)
{
    for (int i = 0; i < t->node->n_in; i++) {
        if (t->node->in[i])
            t->node->in[i]->trains = i == input;
    }
}

/* Where only one input is trained, what the others' gradients need is neither kept nor read. Kept
 * values are as they are; the rest has no memory, as in a pass. */
static void check_alone(const struct op_case *c, const struct trial_options *options)
{
    struct trial t = trial_new(c, options);
    unsigned gradients = trial_gradients(&t), params = trial_params(&t), all = trial_keeps(&t);
    trial_forward(&t);
    trial_backward(&t, gradients, params);
    for (int i = 0; runs(&t) && i < t.node->n_in; i++) {
        struct trial u = trial_new(c, options);
        if (gradients & OP_IN(i)) {
            trial_forward(&u);
            train_alone(&u, i);
            unsigned keeps = trial_keeps(&u);
            cr_expect(!(keeps & ~all), "%s: input %d keeps more alone", case_name(c), i);
            trial_forget(&u, keeps);
            trial_backward(&u, OP_IN(i), params);
            cr_expect(same_bits(&t.call.d_in[i], &u.call.d_in[i]), "%s: input %d alone",
                      case_name(c), i);
        }
        trial_free(&u);
    }
    trial_free(&t);
}

Test(graph_table, an_input_alone_needs_no_more_than_it_keeps)
{
    EACH_CASE(c)
    {
        check_alone(c, &(struct trial_options){.samples = SAMPLES});
        check_alone(
            c, &(struct trial_options){.samples = SAMPLES, .in_type = WK_BF16, .compute = WK_BF16});
    }
}

/* What is kept for one input's gradient alone: OP_IN and OP_OUT bits. */
static unsigned kept_for(const char *row, int input)
{
    EACH_CASE(c)
    {
        if (strcmp(c->row, row))
            continue;
        struct trial t = trial_new(c, &(struct trial_options){.samples = SAMPLES});
        train_alone(&t, input);
        unsigned keeps = trial_keeps(&t);
        trial_free(&t);
        return keeps;
    }
    cr_expect(false, "%s has no case", row);
    return 0;
}

Test(graph_table, frozen_weights_keep_no_inputs)
{
    static const struct {
        const char *row;
        int trained;
        unsigned kept;
    } rows[] = {
        {"linear", 0, OP_IN(1) | OP_IN(2) | OP_IN(3)},
        {"conv2d", 0, OP_IN(1)},
        {"conv2d", 1, OP_IN(0)},
        {"conv2d", 2, 0},
        {"matmul", 0, OP_IN(1)},
        {"matmul", 1, OP_IN(0)},
        {"multiply", 0, OP_IN(1)},
        {"multiply", 1, OP_IN(0)},
        {"binary_cross_entropy", 0, OP_IN(0) | OP_IN(1)},
        {"binary_cross_entropy", 1, OP_IN(0)},
        {"head_cross_entropy", 0, OP_IN(1) | OP_IN(2) | OP_OUT(1)},
        {"head_cross_entropy", 1, OP_IN(0) | OP_IN(2) | OP_OUT(1)},
        {"layer_norm", 0, OP_IN(0) | OP_IN(1) | OP_OUT(1) | OP_OUT(2)},
        {"layer_norm", 2, 0},
        {"group_norm", 2, 0},
        {"batch_norm", 4, 0},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
        cr_expect_eq(kept_for(rows[i].row, rows[i].trained), rows[i].kept, "%s for input %d",
                     rows[i].row, rows[i].trained);
}

/* Another run, at other alignments, has the same bits. */
Test(graph_table, runs_repeat_at_any_address)
{
    EACH_CASE(c)
    {
        struct trial t = trial_new(c, &(struct trial_options){.samples = SAMPLES});
        struct trial u = trial_new(c, &(struct trial_options){.samples = SAMPLES, .shift = 8});
        if (runs(&t)) {
            unsigned gradients = trial_gradients(&t), params = trial_params(&t);
            trial_forward(&t);
            trial_forward(&u);
            trial_backward(&t, gradients, params);
            trial_backward(&u, gradients, params);
            cr_expect(same_bits(&t.call.out[0], &u.call.out[0]), "%s", case_name(c));
            for (int i = 0; i < t.node->n_in; i++) {
                if (gradients & OP_IN(i))
                    cr_expect(same_bits(&t.call.d_in[i], &u.call.d_in[i]), "%s: input %d",
                              case_name(c), i);
            }
        }
        trial_free(&t);
        trial_free(&u);
    }
}

/* Each gradient alone is what it is among the others. */
Test(graph_table, unwanted_gradients_change_nothing)
{
    EACH_CASE(c)
    {
        struct trial t = trial_new(c, &(struct trial_options){.samples = SAMPLES});
        unsigned gradients = trial_gradients(&t), params = trial_params(&t);
        trial_forward(&t);
        trial_backward(&t, gradients, params);
        for (int i = 0; runs(&t) && i < t.node->n_in; i++) {
            struct trial u = trial_new(c, &(struct trial_options){.samples = SAMPLES});
            if (gradients & OP_IN(i)) {
                trial_forward(&u);
                trial_backward(&u, OP_IN(i), params);
                cr_expect(same_bits(&t.call.d_in[i], &u.call.d_in[i]), "%s: input %d", case_name(c),
                          i);
                trial_backward(&u, 0, params);
            }
            trial_free(&u);
        }
        trial_free(&t);
    }
}

/* Added to ones, a gradient is itself plus one, but for roundings. */
Test(graph_table, gradients_are_added_or_overwrite)
{
    EACH_CASE(c)
    {
        struct trial t = trial_new(c, &(struct trial_options){.samples = SAMPLES});
        unsigned gradients = trial_gradients(&t), params = trial_params(&t);
        trial_forward(&t);
        trial_backward(&t, gradients, params);
        struct op_tensor written[NODE_INPUTS_MAX];
        memcpy(written, t.call.d_in, sizeof(written));
        trial_backward(&t, gradients, gradients);
        for (int i = 0; runs(&t) && i < t.node->n_in; i++) {
            if (!(gradients & OP_IN(i)))
                continue;
            double *expected = tensor_doubles(&written[i]);
            for (int64_t k = 0; k < written[i].count; k++)
                expected[k] += params & OP_IN(i) ? 0 : 1;
            double bound = rounding_bound(roundings_of(c));
            expect_near(&t.call.d_in[i], expected, (double[]){bound, bound}, case_name(c));
            free(expected);
        }
        trial_free(&t);
    }
}

/* Nothing to do: parameters' gradients stay, others that do not count samples become 0. */
Test(graph_table, an_empty_batch_is_fine)
{
    EACH_CASE(c)
    {
        struct trial t = trial_new(c, &(struct trial_options){.samples = 0});
        unsigned gradients = trial_gradients(&t), params = trial_params(&t);
        if (runs(&t)) {
            trial_forward(&t);
            trial_backward(&t, gradients, params);
        }
        for (int i = 0; runs(&t) && i < t.node->n_in; i++) {
            int64_t wrong = 0;
            for (int64_t k = 0; k < t.call.d_in[i].count; k++) {
                if (tensor_value(&t.call.d_in[i], k) != (params & OP_IN(i) ? 1 : 0))
                    wrong++;
            }
            cr_expect_eq(wrong, 0, "%s: input %d", case_name(c), i);
        }
        trial_free(&t);
    }
}

Test(graph_table, in_place_has_the_same_bits)
{
    EACH_CASE(c)
    {
        struct trial t = trial_new(c, &(struct trial_options){.samples = SAMPLES});
        if (runs(&t) && t.node->row->in_place) {
            struct trial u =
                trial_new(c, &(struct trial_options){.samples = SAMPLES, .in_place = true});
            trial_forward(&t);
            trial_forward(&u);
            cr_expect(same_bits(&t.call.out[0], &u.call.out[0]), "%s", case_name(c));
            trial_free(&u);
        }
        trial_free(&t);
    }
}

/* Element i of sample s: samples are one dimension, wherever it is. */
static int64_t element_of(const struct op_tensor *x, const struct wk_tensor *like,
                          const int64_t at[3])
{
    int64_t inner = 1, samples = at[2];
    for (int d = like->dims - 1; d >= 0; d--) {
        inner *= x->shape[d] / (like->shape[d].samples ? samples : 1);
        if (like->shape[d].samples)
            break;
    }
    return (at[1] / inner * samples + at[0]) * inner + at[1] % inner;
}

static bool counts_samples(const struct wk_tensor *like)
{
    bool counts = false;
    for (int d = 0; like && d < like->dims; d++)
        counts |= like->shape[d].samples == 1;
    return counts;
}

/* Expect `one` to be sample s of `all`, bit by bit. */
static void expect_sample(const struct op_tensor *all, const struct op_tensor *one,
                          const struct wk_tensor *like, const int64_t of[2], const char *what)
{
    bool same = true;
    for (int64_t i = 0; i < one->count; i++) {
        double x = tensor_value(all, element_of(all, like, (int64_t[]){of[0], i, of[1]}));
        double y = tensor_value(one, i);
        same &= memcmp(&x, &y, sizeof(x)) == 0;
    }
    cr_expect(same, "%s: sample %ld has other bits alone", what, (long)of[0]);
}

/* A sample's value, noise included, is the same alone as among others. */
Test(graph_table, samples_do_not_meet)
{
    EACH_CASE(c)
    {
        struct trial_options options = {.samples = SAMPLES, .kernels = case_kernels(c)};
        struct trial t = trial_new(c, &options);
        unsigned gradients = trial_gradients(&t), params = trial_params(&t);
        trial_forward(&t);
        trial_backward(&t, gradients, params);
        for (int64_t s = 0; runs(&t) && !c->mixes && s < SAMPLES; s++) {
            options.samples = 1;
            options.first_sample = s;
            struct trial u = trial_new(c, &options);
            int64_t of[2] = {s, SAMPLES};
            trial_forward(&u);
            trial_backward(&u, gradients, params);
            expect_sample(&t.call.out[0], &u.call.out[0], t.node->out[0], of, case_name(c));
            for (int i = 0; i < t.node->n_in; i++) {
                if ((gradients & OP_IN(i)) && counts_samples(t.node->in[i]))
                    expect_sample(&t.call.d_in[i], &u.call.d_in[i], t.node->in[i], of,
                                  case_name(c));
            }
            trial_free(&u);
        }
        trial_free(&t);
    }
}

/* Values of one trial where they stand in for those of another. */
static void values_carry(const struct op_tensor *to, const struct op_tensor *from)
{
    for (int64_t i = 0; i < to->count && to->data; i++)
        tensor_put(to, i, tensor_value(from, i));
}

static double unit_of(enum wk_dtype type)
{
    return type == WK_BF16 ? ROUNDING_BF16 : type == WK_F16 ? ROUNDING_F16 : 0;
}

/* What a device rounds before the result, as a share of the largest element. */
static double early_rounding(const struct op_call *call)
{
    bool rounds = trial_kernels.early_roundings;
    return rounds ? trial_kernels.early_roundings(call) * unit_of(call->out[0].type) : 0;
}

/* The result is the one of the rounded inputs in f32, rounded once. */
static void expect_rounded(const struct op_tensor *low, const struct op_tensor *full, double share,
                           const char *what)
{
    double unit = unit_of(low->type);
    double *expected = tensor_doubles(full);
    for (int64_t i = 0; i < full->count; i++) {
        if (low->type == WK_F16 && fabs(expected[i]) >= 65520)
            expected[i] = tensor_value(low, i) > 0 ? INFINITY : -INFINITY;
        double apart = fabs(tensor_value(low, i) - expected[i]);
        bool fits = apart <= share + unit * fabs(expected[i]) + (unit > 0 ? 0x1p-25 : 0);
        if (fits || isinf(expected[i]) || (isnan(expected[i]) && isnan(apart)))
            continue;
        cr_expect(false, "%s in %s: element %ld is %g, not %g", what, wk_dtype_name(low->type),
                  (long)i, tensor_value(low, i), expected[i]);
    }
    free(expected);
}

static void check_types(const struct op_case *c, const struct trial_options *options)
{
    struct trial low = trial_new(c, options);
    struct trial full = trial_new(c, &(struct trial_options){.samples = SAMPLES});
    unsigned gradients = trial_gradients(&low), params = trial_params(&low);
    double bound = rounding_bound(roundings_of(c));
    for (int i = 0; i < low.node->n_in; i++)
        values_carry(&full.call.in[i], &low.call.in[i]);
    trial_forward(&low);
    trial_forward(&full);
    double *result = tensor_doubles(&full.call.out[0]);
    double share = bound + early_rounding(&low.call);
    expect_rounded(&low.call.out[0], &full.call.out[0],
                   share * largest_of(result, full.call.out[0].count), case_name(c));
    free(result);
    for (int i = 0; i < low.node->n_out; i++) {
        if (i == 0 || low.call.out[i].type == full.call.out[i].type)
            values_carry(&full.call.out[i], &low.call.out[i]);
    }
    trial_backward(&low, gradients, params);
    trial_backward(&full, gradients, params);
    for (int i = 0; i < low.node->n_in; i++) {
        if (!(gradients & OP_IN(i)))
            continue;
        double *expected = tensor_doubles(&full.call.d_in[i]);
        double factor = options->compute == WK_F32   ? 0
                        : options->compute == WK_F16 ? rounding_apart(ROUNDING_F16, 1)
                                                     : rounding_apart(ROUNDING_BF16, 1);
        expect_near(&low.call.d_in[i], expected, (double[]){bound + factor, 0}, case_name(c));
        free(expected);
    }
    trial_free(&low);
    trial_free(&full);
}

Test(graph_table, low_types_are_rounded_once)
{
    static const enum wk_dtype types[][2] = {
        {WK_BF16, WK_BF16}, {WK_F16, WK_F16}, {WK_F32, WK_BF16}, {WK_BF16, WK_F32}};
    EACH_CASE(c)
    {
        struct trial t = trial_new(c, &(struct trial_options){.samples = SAMPLES});
        for (size_t i = 0; runs(&t) && i < sizeof(types) / sizeof(types[0]); i++) {
            struct trial_options options = {
                .samples = SAMPLES, .in_type = types[i][0], .out_type = types[i][1]};
            check_types(c, &options);
            if (!t.node->row->factors || types[i][0] == WK_F32)
                continue;
            options.compute = types[i][0];
            check_types(c, &options);
        }
        trial_free(&t);
    }
}

/* A cost is stated for each kernel, without data: it reads and writes something. */
Test(graph_table, costs_are_known_without_data)
{
    EACH_CASE(c)
    {
        struct trial t = trial_new(c, &(struct trial_options){.samples = SAMPLES});
        const struct op_row *row = t.node->row;
        for (int i = 0; i < t.node->n_in; i++)
            t.call.in[i].data = NULL;
        for (int i = 0; i < t.node->n_out; i++)
            t.call.out[i].data = NULL;
        for (int backward = 0; runs(&t) && backward < 2; backward++) {
            struct op_cost cost = {-1, -1};
            if (!row->cost || (backward && !row->backward))
                continue;
            row->cost(&t.call, backward, &cost);
            cr_expect(cost.flop >= 0 && cost.bytes > 0, "%s: %g FLOP, %g bytes", case_name(c),
                      cost.flop, cost.bytes);
        }
        trial_free(&t);
    }
}
