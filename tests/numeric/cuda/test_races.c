/* Under ThreadSanitizer each thread of an emulated kernel is one of its own. Two that use an
 * element without a barrier between them are reported, whatever the order was. These are small
 * cases of each operation; the table's own tests check what they compute. */
#include "tests/lib/check.h"
#include "tests/numeric/graph/harness.h"

enum { ELEMENTS_MAX = 2000 };

static int64_t elements_of(const struct trial *t)
{
    int64_t count = 0;
    for (int i = 0; i < t->node->n_in; i++)
        count += t->call.in[i].count;
    return count;
}

static void run_case(const struct op_case *c, enum wk_dtype type)
{
    struct trial t = trial_new(c, &(struct trial_options){.samples = 3,
                                                          .kernels = case_kernels(c),
                                                          .in_type = type,
                                                          .out_type = type,
                                                          .compute = type});
    if (trial_runs(&t) && elements_of(&t) <= ELEMENTS_MAX) {
        trial_forward(&t);
        trial_backward(&t, trial_gradients(&t), 0);
        trial_backward(&t, trial_gradients(&t), trial_gradients(&t));
    }
    trial_free(&t);
}

static void kernels_have_no_races(void)
{
    for (int i = 0; case_at(i); i++)
        run_case(case_at(i), i % 2 ? WK_F32 : WK_BF16);
}

int main(int argc, char **argv)
{
    static const struct check_case cases[] = {CHECK_CASE(kernels_have_no_races), {NULL, NULL}};
    return check_all(cases, argc, argv);
}
