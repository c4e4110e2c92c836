/* Dealing as Accelerate does, against what it dealt (tests/reference). */
#include <criterion/criterion.h>
#include <jansson.h>
#include <string.h>

#include <worker/data.h>
#include <worker/error.h>

#include "tests/lib/reference.h"

static struct wk_deal deal_of(const json_t *one, int *ret_world)
{
    *ret_world = (int)json_integer_value(json_object_get(one, "world"));
    return (struct wk_deal){
        .samples = json_integer_value(json_object_get(one, "samples")),
        .batch = json_integer_value(json_object_get(one, "batch_size")),
        .split_batches = json_is_true(json_object_get(one, "split_batches")),
        .even_batches = json_is_true(json_object_get(one, "even_batches")),
        .drop_last = json_is_true(json_object_get(one, "drop_last")),
    };
}

Test(deal, batches_are_those_of_accelerate_and_as_many_as_said)
{
    json_t *cases = reference_json("batch_shards.json"), *one, *rank_batches, *batch;
    size_t n, rank, k;
    int64_t indices[4096];
    json_array_foreach(cases, n, one)
    {
        int world;
        struct wk_deal deal = deal_of(one, &world);
        if (wk_deal_check(&deal, world))
            continue;
        json_array_foreach(json_object_get(one, "ranks"), rank, rank_batches)
        {
            cr_assert_eq(wk_deal_batches(&deal, (int)rank, world),
                         (int64_t)json_array_size(rank_batches), "case %zu rank %zu", n, rank);
            json_array_foreach(rank_batches, k, batch)
            {
                int64_t count = wk_deal_batch(&deal, (int)rank, world, (int64_t)k, indices);
                cr_assert_eq(count, (int64_t)json_array_size(batch), "case %zu", n);
                for (int64_t i = 0; i < count; i++)
                    cr_assert_eq(indices[i], json_integer_value(json_array_get(batch, (size_t)i)),
                                 "case %zu rank %zu batch %zu", n, rank, k);
            }
        }
    }
    cr_assert(n > 100, "%zu cases", n);
    json_decref(cases);
}

Test(deal, streams_are_dealt_as_accelerate_does)
{
    json_t *cases = reference_json("stream_shards.json"), *one, *elements;
    size_t n, rank;
    int64_t indices[4096];
    json_array_foreach(cases, n, one)
    {
        int world;
        struct wk_deal deal = deal_of(one, &world);
        deal.even_batches = true;
        json_array_foreach(json_object_get(one, "ranks"), rank, elements)
        {
            size_t at = 0;
            int64_t batches = wk_deal_batches(&deal, (int)rank, world);
            for (int64_t k = 0; k < batches; k++) {
                int64_t count = wk_deal_batch(&deal, (int)rank, world, k, indices);
                for (int64_t i = 0; i < count; i++)
                    cr_assert_eq(indices[i], json_integer_value(json_array_get(elements, at++)),
                                 "case %zu rank %zu", n, rank);
            }
            cr_assert_eq(at, json_array_size(elements), "case %zu rank %zu", n, rank);
        }
    }
    cr_assert(n > 100, "%zu cases", n);
    json_decref(cases);
}

/* Every element once, and filling only behind what is real. */
Test(deal, what_is_real_comes_first_and_comes_once)
{
    int64_t indices[64];
    for (int world = 1; world <= 4; world++)
        for (int64_t samples = 1; samples <= 40; samples++)
            for (int64_t size = 1; size <= 5; size++) {
                struct wk_deal deal = {samples, size, false, true, false};
                int seen[64] = {0};
                for (int64_t k = 0; k < wk_deal_batches(&deal, 0, world); k++) {
                    int64_t real = wk_deal_real(&deal, world, k), place = 0;
                    for (int rank = 0; rank < world; rank++) {
                        int64_t count = wk_deal_batch(&deal, rank, world, k, indices);
                        for (int64_t i = 0; i < count; i++)
                            if (place++ < real)
                                seen[indices[i]]++;
                    }
                }
                for (int64_t i = 0; i < samples; i++)
                    cr_assert_eq(seen[i], 1);
                cr_assert_eq(wk_deal_real(&deal, world, wk_deal_batches(&deal, 0, world)), 0);
            }
}

Test(deal, batches_that_cannot_be_shared_are_refused)
{
    cr_assert_eq(wk_deal_check(&(struct wk_deal){10, 4, true, true, false}, 3), WK_EINVAL);
    cr_assert_eq(wk_deal_check(&(struct wk_deal){10, 0, false, true, false}, 3), WK_EINVAL);
    cr_assert_eq(wk_deal_check(&(struct wk_deal){10, 4, true, true, false}, 2), 0);
}
