/* Order, shares and positions of data. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "libworker/data/loader.h"
#include "libworker/data/split.h"

Test(permutation, is_one_for_every_size)
{
    static unsigned char seen[5000];
    static const uint64_t sizes[] = {1, 2, 3, 4, 5, 7, 8, 9, 15, 16, 17, 100, 255, 256, 257, 4999};
    for (size_t s = 0; s < sizeof(sizes) / sizeof(sizes[0]); s++) {
        struct permutation order;
        permutation_init(&order, sizes[s], 42, 3);
        memset(seen, 0, sizeof(seen));
        for (uint64_t i = 0; i < sizes[s]; i++) {
            uint64_t at = permutation_at(&order, i);
            cr_assert_lt(at, sizes[s]);
            cr_assert_eq(seen[at], 0, "%llu comes twice of %llu", (unsigned long long)at,
                         (unsigned long long)sizes[s]);
            seen[at] = 1;
        }
    }
}

Test(permutation, differs_by_seed_and_epoch_and_looks_shuffled)
{
    enum { N = 4000 };
    struct permutation a, b, c;
    permutation_init(&a, N, 1, 0);
    permutation_init(&b, N, 2, 0);
    permutation_init(&c, N, 1, 1);
    int same_b = 0, same_c = 0, fixed = 0, neighbours = 0;
    double distance = 0;
    for (uint64_t i = 0; i < N; i++) {
        uint64_t at = permutation_at(&a, i);
        same_b += at == permutation_at(&b, i);
        same_c += at == permutation_at(&c, i);
        fixed += at == i;
        distance += at > i ? (double)(at - i) : (double)(i - at);
        neighbours += i && at == permutation_at(&a, i - 1) + 1;
    }
    /* Each of these is expected once; |x - i| is a third of N on average. */
    cr_assert(same_b < 10 && same_c < 10 && fixed < 10 && neighbours < 10);
    cr_assert(distance / N > 0.30 * N && distance / N < 0.37 * N, "%f", distance / N);
}

/* A run that goes on under another version must meet the order it began with. */
Test(permutation, the_order_of_a_seed_and_epoch_never_changes)
{
    static const struct {
        uint64_t seed, epoch;
        int first[8];
    } known[] = {{1337, 0, {31, 365, 968, 255, 646, 585, 916, 571}},
                 {1337, 1, {275, 126, 768, 231, 293, 986, 730, 770}},
                 {1338, 0, {488, 848, 210, 110, 154, 131, 731, 822}}};
    for (size_t k = 0; k < sizeof(known) / sizeof(known[0]); k++) {
        struct permutation order;
        permutation_init(&order, 1000, known[k].seed, known[k].epoch);
        for (uint64_t i = 0; i < 8; i++)
            cr_expect_eq(permutation_at(&order, i), (uint64_t)known[k].first[i]);
    }
}

Test(permutation, large_ranges_are_entered_anywhere)
{
    struct permutation order;
    uint64_t size = ((uint64_t)1 << 40) + 12345;
    permutation_init(&order, size, 7, 0);
    for (uint64_t i = 0; i < 1000; i++)
        cr_assert_lt(permutation_at(&order, size - 1 - i * 1000003), size);
}

Test(split, shares_cover_everything_once_and_differ_by_one)
{
    for (int world = 1; world <= 9; world++) {
        for (int64_t total = 0; total <= 40; total++) {
            int64_t next = 0, least = total + 1, most = 0;
            for (int rank = 0; rank < world; rank++) {
                int64_t first, count;
                split_share(total, rank, world, &first, &count);
                cr_assert_eq(first, next);
                next += count;
                least = count < least ? count : least;
                most = count > most ? count : most;
            }
            cr_assert_eq(next, total);
            cr_assert_leq(most - least, 1);
        }
    }
}

Test(split, seventeen_over_four)
{
    static const int64_t counts[] = {5, 4, 4, 4};
    for (int rank = 0; rank < 4; rank++) {
        int64_t first, count;
        split_share(17, rank, 4, &first, &count);
        cr_assert_eq(count, counts[rank]);
    }
}

enum { LENGTH = 4 };

/* A source whose sample i starts with token i. */
static struct wk_source *numbered(int samples)
{
    static uint16_t tokens[1000 * LENGTH + 1];
    char path[] = "/tmp/muster-order-XXXXXX";
    struct wk_source *source = NULL;
    for (int i = 0; i <= samples * LENGTH; i++)
        tokens[i] = (uint16_t)(i % LENGTH ? 60000 + i % 1000 : i / LENGTH);
    int fd = mkstemp(path);
    FILE *file = fdopen(fd, "w");
    fwrite(tokens, 2, (size_t)samples * LENGTH + 1, file);
    fclose(file);
    cr_assert_eq(source_open(path, WK_SOURCE_U16, &source, NULL), 0);
    remove(path);
    return source;
}

static struct wk_loader *loader_of(struct wk_source *source, int64_t batch, int64_t epochs,
                                   bool drop_last)
{
    struct wk_loader *loader;
    struct wk_loader_options options = {.source = source,
                                        .length = LENGTH,
                                        .batch = batch,
                                        .epochs = epochs,
                                        .seed = 5,
                                        .drop_last = drop_last};
    cr_assert_eq(loader_new(&options, &loader, NULL), 0);
    return loader;
}

/* Samples dealt to all ranks of `world` from `position` on, in global order. */
static int deal(struct wk_source *source, int world, int64_t position, int batches, int *ret)
{
    int n = 0;
    struct wk_loader *loaders[8];
    for (int r = 0; r < world; r++) {
        loaders[r] = loader_of(source, 10, 2, false);
        cr_assert_eq(loader_seek(loaders[r], position), 0);
    }
    for (int b = 0; b < batches; b++) {
        int64_t total = 0, global = 0;
        for (int r = 0; r < world; r++) {
            struct wk_batch batch;
            struct loader_place place = {r, world};
            int rc = loader_next(loaders[r], &place, &batch, NULL);
            if (rc == 0)
                break;
            cr_assert_eq(rc, 1);
            for (int64_t i = 0; i < batch.samples; i++) {
                ret[n++] = batch.tokens[i * LENGTH];
                cr_assert_eq(batch.targets[i * LENGTH], batch.tokens[i * LENGTH + 1]);
            }
            total += batch.samples;
            global = batch.global_samples;
            cr_assert_eq(batch.denominator, (double)global * LENGTH);
        }
        cr_assert_eq(total, global);
    }
    for (int r = 0; r < world; r++)
        wk_loader_free(loaders[r]);
    return n;
}

Test(loader, the_global_order_is_the_same_at_any_world_and_from_any_position)
{
    enum { SAMPLES = 47, ALL = 2 * SAMPLES };
    static int one[ALL + 10], other[ALL + 10];
    struct wk_source *source = numbered(SAMPLES);
    cr_assert_eq(deal(source, 1, 0, 100, one), ALL);
    for (int world = 2; world <= 4; world++) {
        cr_assert_eq(deal(source, world, 0, 100, other), ALL);
        cr_assert_arr_eq(one, other, ALL * sizeof(int));
    }
    /* Mid-epoch, at another world: the first 20 on 2 ranks, the rest on 3. */
    int n = deal(source, 2, 0, 2, other);
    cr_assert_eq(n, 20);
    cr_assert_eq(deal(source, 3, 20, 100, other + n), ALL - 20);
    cr_assert_arr_eq(one, other, ALL * sizeof(int));
    wk_source_free(source);
}

Test(loader, an_epoch_has_every_sample_exactly_once)
{
    enum { SAMPLES = 47 };
    static int dealt[200];
    int seen[2][SAMPLES] = {{0}};
    struct wk_source *source = numbered(SAMPLES);
    int n = deal(source, 3, 0, 100, dealt);
    cr_assert_eq(n, 2 * SAMPLES);
    for (int i = 0; i < n; i++)
        seen[i / SAMPLES][dealt[i]]++;
    for (int i = 0; i < SAMPLES; i++)
        cr_assert(seen[0][i] == 1 && seen[1][i] == 1);
    cr_assert_neq(memcmp(dealt, dealt + SAMPLES, SAMPLES * sizeof(int)), 0);
    wk_source_free(source);
}

/* The samples of `batches` global batches of this size from *position on, dealt to `world` ranks.
 */
static int deal_on(struct wk_source *source, struct loader_place world, int64_t size, int batches,
                   int64_t *position, int *ret)
{
    int n = 0;
    struct wk_loader *loaders[4];
    for (int r = 0; r < world.world; r++) {
        loaders[r] = loader_of(source, size, 2, false);
        cr_assert_eq(loader_seek(loaders[r], *position), 0);
    }
    for (int b = 0; b < batches; b++)
        for (int r = 0; r < world.world; r++) {
            struct wk_batch batch;
            struct loader_place place = {r, world.world};
            if (loader_next(loaders[r], &place, &batch, NULL) != 1)
                continue;
            for (int64_t i = 0; i < batch.samples; i++)
                ret[n++] = batch.tokens[i * LENGTH];
            *position = wk_loader_position(loaders[r]);
        }
    for (int r = 0; r < world.world; r++)
        wk_loader_free(loaders[r]);
    return n;
}

/* Stopped after any batch of any size at any world, gone on with any other, and once more. */
Test(loader, any_resume_at_any_size_deals_every_sample_once)
{
    enum { SAMPLES = 11, ALL = 2 * SAMPLES, SIZES = 5, WORLDS = 4 };
    static int one[ALL + 1], other[3 * ALL];
    struct wk_source *source = numbered(SAMPLES);
    int64_t start = 0;
    cr_assert_eq(deal_on(source, (struct loader_place){0, 1}, 1, ALL + 1, &start, one), ALL);
    for (int i = 0; i < SIZES * SIZES * WORLDS * WORLDS; i++) {
        int64_t size = 1 + i % SIZES, next_size = 1 + i / SIZES % SIZES;
        struct loader_place world = {0, 1 + i / SIZES / SIZES % WORLDS},
                            next = {0, 1 + i / SIZES / SIZES / WORLDS};
        for (int stop = 0; stop <= ALL; stop++) {
            int64_t position = 0;
            int n = deal_on(source, world, size, stop, &position, other);
            n += deal_on(source, next, next_size, 1, &position, other + n);
            n += deal_on(source, world, size, ALL, &position, other + n);
            cr_assert_eq(n, ALL, "%d of %d, batch %d", stop, world.world, (int)size);
            cr_assert_arr_eq(one, other, sizeof(int) * ALL);
        }
    }
    wk_source_free(source);
}

/* The last token is a target only: without one behind them the last tokens are no sample. */
Test(loader, a_sample_has_a_successor)
{
    static const char text[] = "abcdefgh";
    struct wk_source *source;
    for (size_t size = 5; size <= 8; size++) {
        cr_assert_eq(source_bytes(text, size, &source, NULL), 0);
        struct wk_loader *loader = loader_of(source, 1, 1, false);
        cr_expect_eq(wk_loader_samples(loader), 1, "of %zu tokens", size);
        wk_loader_free(loader);
        wk_source_free(source);
    }
}

Test(loader, what_comes_after_a_batch_counts_the_short_one)
{
    struct wk_source *source = numbered(11);
    struct wk_loader *loader = loader_of(source, 4, 1, false);
    struct loader_place alone = {0, 1};
    struct wk_batch batch;
    for (int64_t after = 2; after >= 0; after--) {
        cr_assert_eq(loader_next(loader, &alone, &batch, NULL), 1);
        cr_expect_eq(loader->batches_after, after);
        cr_expect_eq(loader_at_end(loader), after == 0);
    }
    cr_assert_eq(loader_seek(loader, 3), 0);
    cr_expect_eq(loader->committed, 3, "a step that is rolled back begins here");
    wk_loader_free(loader);
    wk_source_free(source);
}

Test(loader, drop_last_leaves_the_tail_and_lengths_tell_the_truth)
{
    struct wk_source *source = numbered(47);
    struct wk_loader *loader = loader_of(source, 10, 2, true);
    struct loader_place alone = {0, 1};
    struct wk_batch batch;
    int64_t batches = 0, samples = 0;
    while (loader_next(loader, &alone, &batch, NULL) == 1) {
        batches++;
        samples += batch.samples;
        cr_assert_eq(batch.samples, 10);
        cr_assert_eq(loader->batches_after, 3 - (batches - 1) % 4);
        cr_assert_eq(wk_loader_position(loader), batches / 4 * 47 + batches % 4 * 10);
        cr_assert_eq(loader_at_end(loader), batches == 8);
    }
    cr_assert_eq(batches, 2 * wk_loader_batches(loader));
    cr_assert_eq(samples, 2 * wk_loader_samples(loader));
    cr_assert_eq(batches, 8);
    cr_assert_eq(wk_loader_position(loader), 94);
    /* A position inside the tail, as another batch size may leave it, goes on with the next epoch.
     */
    cr_assert_eq(loader_seek(loader, 43), 0);
    cr_assert_eq(loader_next(loader, &alone, &batch, NULL), 1);
    cr_assert_eq(batch.position, 47);
    wk_loader_free(loader);
    wk_source_free(source);
}

Test(loader, what_yields_nothing_is_refused)
{
    struct wk_source *source = numbered(3);
    struct wk_loader *loader;
    struct wk_loader_options options = {.source = source, .length = 100, .batch = 1};
    cr_assert_eq(loader_new(&options, &loader, NULL), WK_EINVAL);
    options = (struct wk_loader_options){
        .source = source, .length = LENGTH, .batch = 4, .drop_last = true};
    cr_assert_eq(loader_new(&options, &loader, NULL), WK_EINVAL);
    options.batch = 0;
    cr_assert_eq(loader_new(&options, &loader, NULL), WK_EINVAL);
    wk_source_free(source);
}

Test(loader, empty_shares_are_batches_too)
{
    struct wk_source *source = numbered(2);
    struct wk_loader *loader = loader_of(source, 2, 1, false);
    struct loader_place last = {3, 4};
    struct wk_batch batch;
    cr_assert_eq(loader_next(loader, &last, &batch, NULL), 1);
    cr_assert_eq(batch.samples, 0);
    cr_assert_eq(batch.global_samples, 2);
    cr_assert_eq(loader_next(loader, &last, &batch, NULL), 0);
    wk_loader_free(loader);
    wk_source_free(source);
}

/* Batches of an epoch of 7 samples in batches of 3, or 2 that are full: the numbers of samples. */
Test(loader, ends_after_so_many_batches_whatever_the_epochs)
{
    enum { TOKENS = 15, LENGTH = 2 };
    static const struct {
        bool drop_last;
        int64_t epochs, batches;
        int64_t sizes[6]; /* ended by 0 */
    } rows[] = {
        {false, 0, 5, {3, 3, 1, 3, 3}}, {true, 0, 5, {3, 3, 3, 3, 3}},
        {false, 1, 5, {3, 3, 1}},       {false, 2, 1, {3}},
        {true, 1, 2, {3, 3}},
    };
    struct error err = {0};
    struct wk_source *source;
    struct wk_batch batch;
    const struct loader_place place = {0, 1};
    cr_assert_eq(source_bytes("abcdefghijklmno", TOKENS, &source, &err), 0);
    for (size_t r = 0; r < sizeof(rows) / sizeof(rows[0]); r++) {
        const struct wk_loader_options options = {source,
                                                  LENGTH,
                                                  3,
                                                  .epochs = rows[r].epochs,
                                                  .drop_last = rows[r].drop_last,
                                                  .batches = rows[r].batches};
        struct wk_loader *loader;
        int64_t n = 0, left = 0;
        while (rows[r].sizes[left])
            left++;
        cr_assert_eq(loader_new(&options, &loader, &err), 0);
        for (; loader_next(loader, &place, &batch, &err) == 1; n++) {
            cr_assert_eq(batch.samples, rows[r].sizes[n], "row %zu, batch %lld", r, (long long)n);
            /* A window must not wait for more than comes. */
            cr_assert_leq(loader->batches_after, left - n - 1, "row %zu, batch %lld", r,
                          (long long)n);
        }
        cr_expect_eq(n, left, "row %zu: %lld batches", r, (long long)n);
        cr_expect(loader_at_end(loader));
        cr_assert_eq(loader_seek(loader, 0), 0);
        cr_expect_not(loader_at_end(loader));
        wk_loader_free(loader);
    }
    const struct wk_loader_options negative = {source, LENGTH, 3, .batches = -1};
    struct wk_loader *none;
    cr_expect_eq(loader_new(&negative, &none, &err), WK_EINVAL);
    wk_source_free(source);
}
