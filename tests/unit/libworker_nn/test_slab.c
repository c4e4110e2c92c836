#include <criterion/criterion.h>
#include <stdint.h>

#include <worker/error.h>

#include "libworker/tensor/slab.h"

Test(slab, views_are_aligned_and_apart)
{
    struct slab slab = {0};
    cr_assert_eq(slab_reset(&slab, slab_rounded(3) + slab_rounded(17), NULL), 0);
    float *a = slab_take(&slab, 3), *b = slab_take(&slab, 17);
    cr_expect_eq((uintptr_t)a % SLAB_ALIGN_BYTES, 0);
    cr_expect_eq((uintptr_t)b % SLAB_ALIGN_BYTES, 0);
    cr_expect_geq(b - a, 3);
    slab_fini(&slab);
}

Test(slab, keeps_its_memory_while_it_is_enough)
{
    struct slab slab = {0};
    cr_assert_eq(slab_reset(&slab, 1000, NULL), 0);
    const float *data = slab.data;
    cr_assert_eq(slab_reset(&slab, 10, NULL), 0);
    cr_expect_eq(slab.data, data);
    cr_assert_eq(slab_reset(&slab, 100000, NULL), 0);
    cr_expect_geq(slab.capacity, 100000u);
    slab_fini(&slab);
    slab_fini(&slab);
    slab_fini(NULL);
}

Test(slab, refuses_what_memory_cannot_hold)
{
    struct slab slab = {0};
    struct error err = {0};
    cr_expect_eq(slab_reset(&slab, SIZE_MAX / 2, &err), WK_ENOMEM);
    cr_expect_neq(err.text[0], 0);
    slab_fini(&slab);
}
