/* Dimensions: numbers times the samples and the length of a batch. */
#include <criterion/criterion.h>

#include <worker/graph.h>

#include "libworker/graph/dim.h"

static const struct sizes sizes = {.samples = 3, .length = 7};

Test(graph_dim, sizes_of_a_batch)
{
    struct dim merged = dim_times(dim_times(dim_of(WK_SAMPLES), dim_of(WK_LENGTH)), dim_of(8));
    cr_expect_eq(dim_size(dim_of(WK_SAMPLES), &sizes), 3);
    cr_expect_eq(dim_size(dim_of(WK_LENGTH), &sizes), 7);
    cr_expect_eq(dim_size(merged, &sizes), 3 * 7 * 8);
    cr_expect_eq(dim_size(merged, &(struct sizes){0, 7}), 0);
    cr_expect_eq(dim_size(dim_times(dim_of(WK_RANKS), merged), &(struct sizes){3, 7, 2}), 2 * 168);
    cr_expect_eq(dim_size(dim_of(WK_RANKS), &sizes), 1, "a model alone");
}

Test(graph_dim, division_undoes_products_or_says_so)
{
    struct dim samples = dim_of(WK_SAMPLES), length = dim_of(WK_LENGTH), six = dim_fixed(6);
    cr_expect(dim_equal(dim_over(dim_times(samples, six), six), samples));
    cr_expect(dim_equal(dim_over(dim_times(samples, six), samples), six));
    cr_expect(
        dim_equal(dim_over(dim_times(six, length), dim_fixed(3)), dim_times(length, dim_fixed(2))));
    cr_expect_eq(dim_over(six, dim_fixed(4)).fixed, 0);
    cr_expect_eq(dim_over(six, samples).fixed, 0);
    cr_expect_eq(dim_over(samples, length).fixed, 0);
    cr_expect_eq(dim_over(samples, dim_of(WK_RANKS)).fixed, 0);
    cr_expect(dim_equal(dim_over(dim_times(samples, dim_of(WK_RANKS)), dim_of(WK_RANKS)), samples));
}

Test(graph_dim, kinds)
{
    cr_expect(dim_is_one(dim_fixed(1)));
    cr_expect(!dim_is_one(dim_of(WK_SAMPLES)));
    cr_expect(dim_is_fixed(dim_fixed(5)));
    cr_expect(!dim_is_fixed(dim_of(WK_LENGTH)));
    cr_expect(!dim_equal(dim_of(WK_LENGTH), dim_of(WK_SAMPLES)));
    cr_expect(!dim_equal(dim_of(WK_RANKS), dim_of(WK_SAMPLES)) && !dim_is_fixed(dim_of(WK_RANKS)));
}

Test(graph_dim, text)
{
    char text[DIM_TEXT_MAX];
    struct dim both = dim_times(dim_of(WK_SAMPLES), dim_of(WK_LENGTH));
    cr_expect_str_eq(dim_text(dim_fixed(1), text), "1");
    cr_expect_str_eq(dim_text(dim_of(WK_SAMPLES), text), "samples");
    cr_expect_str_eq(dim_text(dim_times(both, dim_fixed(8)), text), "8*samples*length");
    cr_expect_str_eq(dim_text(dim_times(dim_fixed(2), dim_of(WK_LENGTH)), text), "2*length");
    cr_expect_str_eq(dim_text(dim_times(dim_of(WK_RANKS), both), text), "ranks*samples*length");
    cr_expect_str_eq(dim_text(dim_times(both, both), text), "samples*samples*length*length");
}
