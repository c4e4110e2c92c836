/* A row that says that positions do not meet computes the same for some of them as for all.
 * Decoding depends on it, and so will ranks that each have a part of a sequence. */
#include <criterion/criterion.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tests/lib/rounding.h"
#include "tests/numeric/graph/harness.h"

enum { SAMPLES = 3, POSITIONS = 5, PIECES = 2 };
static const int64_t ends[PIECES + 1] = {0, 2, POSITIONS};

static bool has_length(const struct wk_tensor *like)
{
    bool has = false;
    for (int d = 0; like && d < like->dims; d++)
        has |= like->shape[d].length > 0;
    return has;
}

/* Expect the piece's elements to be those of all, bit by bit. */
static void expect_piece(const struct trial *piece, const struct op_tensor *part,
                         const struct op_tensor *all, const struct wk_tensor *like)
{
    bool same = true;
    for (int64_t i = 0; i < part->count; i++) {
        double x = tensor_value(part, i);
        double y = tensor_value(all, trial_index(piece, part, like, i));
        same &= memcmp(&x, &y, sizeof(x)) == 0;
    }
    cr_expect(same, "%s: positions from %ld on have other bits alone", case_name(piece->c),
              (long)piece->options.first_position);
}

/* What every position adds to: the pieces' sum. A parameter's gradient was added to ones. */
static void expect_sum(const struct trial *all, const struct trial pieces[PIECES], int input)
{
    const struct op_tensor *d = &all->call.d_in[input];
    double base = trial_params(all) & OP_IN(input) ? 1 : 0;
    double *expected = tensor_doubles(d), most = largest_of(expected, d->count);
    double roundings = all->c->roundings > 0 ? all->c->roundings : 8;
    for (int64_t i = 0; i < d->count; i++) {
        double sum = base;
        for (int p = 0; p < PIECES; p++)
            sum += tensor_value(&pieces[p].call.d_in[input], i) - base;
        cr_expect(fabs(sum - expected[i]) <= rounding_bound(roundings + PIECES) * fmax(most, 1),
                  "%s: gradient %d, element %ld: pieces add up to %g, not %g", case_name(all->c),
                  input, (long)i, sum, expected[i]);
    }
    free(expected);
}

static void run_both(struct trial *t)
{
    trial_forward(t);
    trial_backward(t, trial_gradients(t), trial_params(t));
}

static void check_case(const struct op_case *c)
{
    struct trial_options options = {
        .samples = SAMPLES, .length = POSITIONS, .kernels = case_kernels(c)};
    struct trial all = trial_new(c, &options), pieces[PIECES];
    if (!trial_runs(&all)) {
        trial_free(&all);
        return;
    }
    run_both(&all);
    options.of_length = POSITIONS;
    for (int p = 0; p < PIECES; p++) {
        options.first_position = ends[p];
        options.length = ends[p + 1] - ends[p];
        pieces[p] = trial_new(c, &options);
        run_both(&pieces[p]);
        expect_piece(&pieces[p], &pieces[p].call.out[0], &all.call.out[0], all.node->out[0]);
        for (int i = 0; i < all.node->n_in; i++) {
            if ((trial_gradients(&all) & OP_IN(i)) && has_length(all.node->in[i]))
                expect_piece(&pieces[p], &pieces[p].call.d_in[i], &all.call.d_in[i],
                             all.node->in[i]);
        }
    }
    for (int i = 0; i < all.node->n_in; i++) {
        if ((trial_gradients(&all) & OP_IN(i)) && !has_length(all.node->in[i]))
            expect_sum(&all, pieces, i);
    }
    for (int p = 0; p < PIECES; p++)
        trial_free(&pieces[p]);
    trial_free(&all);
}

static bool is_by_position(const struct op_case *c)
{
    bool by_position = false;
    for (int i = 0; i < NODE_INPUTS_MAX; i++) {
        for (int d = 0; d < c->in[i].shape.dims; d++)
            by_position |= c->in[i].shape.size[d] == WK_LENGTH;
    }
    return by_position;
}

Test(graph_cuts, positions_do_not_meet_where_a_row_says_so)
{
    for (int r = 0; op_row_at(r); r++) {
        const struct op_row *row = op_row_at(r);
        int checked = 0;
        for (int i = 0; case_at(i) && (row->cuts & OP_CUT_LENGTH) && !row->view; i++) {
            const struct op_case *c = case_at(i);
            if (strcmp(c->row, row->name) != 0 || !is_by_position(c))
                continue;
            check_case(c);
            checked++;
        }
        cr_expect(checked || row->view || !(row->cuts & OP_CUT_LENGTH),
                  "%s: no case has positions to cut", row->name);
    }
}
