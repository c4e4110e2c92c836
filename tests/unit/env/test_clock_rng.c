#include <criterion/criterion.h>
#include <string.h>

#include "common/env/clock_os.h"
#include "common/env/rng_os.h"

Test(clock_os, monotonic_time_does_not_go_back_and_wall_time_is_of_this_century)
{
    struct clock clock = clock_os();
    int64_t last = 0;
    for (int i = 0; i < 1000; i++) {
        int64_t now = clock.now_ms(clock.self);
        cr_assert_geq(now, last);
        last = now;
    }
    cr_assert_gt(clock.wall_ms(clock.self), 1600000000000);
    cr_assert_lt(clock.wall_ms(clock.self), 4102444800000);
}

Test(rng_os, fills_every_byte_and_never_the_same)
{
    struct rng_source rng = rng_os();
    unsigned char touched[1000] = {0}, one[1000], two[1000];
    for (int round = 0; round < 20; round++) {
        rng.fill(rng.self, one, sizeof(one));
        for (size_t i = 0; i < sizeof(one); i++)
            touched[i] |= one[i];
    }
    for (size_t i = 0; i < sizeof(touched); i++)
        cr_assert_neq(touched[i], 0);
    rng.fill(rng.self, two, sizeof(two));
    cr_assert_neq(memcmp(one, two, sizeof(one)), 0);
    rng.fill(rng.self, NULL, 0);
}
