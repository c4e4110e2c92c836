#include <criterion/criterion.h>
#include <stdint.h>

#include "libworker/nn/model.h"
#include "libworker/parallel/bucket.h"

enum { N = 7 };

/* 7 parameters of 100 elements with gaps of 12 between them and of 8 before the first. */
static void fill(struct param *params)
{
    for (int i = 0; i < N; i++)
        params[i] = (struct param){.offset = 8 + (size_t)i * 112, .count = 100};
}

static void check_cover(const struct bucket *buckets, int n, size_t count)
{
    size_t end = count;
    for (int i = 0; i < n; i++) {
        cr_assert_eq(buckets[i].offset + buckets[i].count, end);
        end = buckets[i].offset;
    }
    cr_assert_eq(end, 0);
}

Test(bucket, ranges_cover_the_arena_from_its_end)
{
    struct param params[N];
    struct bucket buckets[N];
    int of[N];
    fill(params);
    for (size_t bytes = 0; bytes < 4000; bytes += 100) {
        struct bucket_sizes sizes = {bytes / 2, bytes};
        int n = bucket_cut(params, N, N * 112 + 24, &sizes, buckets, of);
        check_cover(buckets, n, N * 112 + 24);
        int total = 0;
        for (int i = 0; i < n; i++)
            total += buckets[i].params;
        cr_assert_eq(total, N);
        for (int i = 0; i < N; i++) {
            const struct bucket *bucket = &buckets[of[i]];
            cr_assert(params[i].offset >= bucket->offset);
            cr_assert(params[i].offset + params[i].count <= bucket->offset + bucket->count);
        }
    }
}

Test(bucket, the_first_is_small_and_the_others_large)
{
    struct param params[N];
    struct bucket buckets[N];
    int of[N];
    fill(params);
    struct bucket_sizes sizes = {400, 1200};
    int n = bucket_cut(params, N, N * 112 + 8, &sizes, buckets, of);
    cr_assert_eq(n, 3);
    cr_assert_eq(buckets[0].params, 1);
    cr_assert_eq(buckets[1].params, 3);
    cr_assert_eq(buckets[2].params, 3);
    cr_assert(of[6] == 0 && of[5] == 1 && of[0] == 2);
}

Test(bucket, size_zero_gives_each_its_own_and_a_huge_one_a_single)
{
    struct param params[N];
    struct bucket buckets[N];
    int of[N];
    fill(params);
    struct bucket_sizes none = {0, 0}, huge = {SIZE_MAX, SIZE_MAX};
    cr_assert_eq(bucket_cut(params, N, N * 112 + 8, &none, buckets, of), N);
    cr_assert_eq(bucket_cut(params, N, N * 112 + 8, &huge, buckets, of), 1);
}
