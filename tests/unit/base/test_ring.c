#include <criterion/criterion.h>

#include "common/base/error.h"
#include "common/base/ring.h"

Test(ring, first_in_first_out_over_many_laps)
{
    struct ring ring;
    int next_in = 0, next_out = 0, item;
    cr_assert_eq(ring_init(&ring, 7, sizeof(int)), 0);
    for (int step = 0; step < 1000; step++) {
        if (step % 3 != 2) {
            if (ring_push(&ring, &next_in) == 0)
                next_in++;
            else
                cr_assert(ring_full(&ring));
        } else if (ring_pop(&ring, &item)) {
            cr_assert_eq(item, next_out++);
        }
    }
    for (size_t i = 0; i < ring.count; i++)
        cr_assert_eq(*(int *)ring_at(&ring, i), next_out + (int)i);
    cr_assert_null(ring_at(&ring, ring.count));
    ring_fini(&ring);
}

Test(ring, full_is_an_answer_and_push_over_forgets_the_oldest)
{
    struct ring ring;
    int item;
    ring_init(&ring, 2, sizeof(int));
    for (int i = 1; i <= 2; i++)
        cr_assert_eq(ring_push(&ring, &i), 0);
    item = 3;
    cr_assert_eq(ring_push(&ring, &item), E_RESOURCE_EXHAUSTED);
    cr_assert(ring_push_over(&ring, &item));
    cr_assert(ring_pop(&ring, &item));
    cr_assert_eq(item, 2);
    cr_assert_not(ring_push_over(&ring, &item));
    ring_clear(&ring);
    cr_assert_not(ring_pop(&ring, NULL));
    ring_fini(&ring);
    ring_fini(&ring);
}

Test(ring, capacity_zero_takes_nothing)
{
    struct ring ring, zero = {0};
    int item = 1;
    cr_assert_eq(ring_init(&ring, 0, sizeof(int)), 0);
    cr_assert_eq(ring_push(&ring, &item), E_RESOURCE_EXHAUSTED);
    cr_assert(ring_push_over(&ring, &item));
    cr_assert_not(ring_pop(&ring, &item));
    cr_assert_not(ring_pop(&zero, &item));
    ring_fini(&ring);
}
