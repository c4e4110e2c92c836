/* The emulator computes what CUDA's guide says, whatever the seed. */
#include <math.h>
#include <stdlib.h>

#include "libworker/precision/half.h"
#include "tests/cuda/emulated/emulated.h"
#include "tests/cuda/exercise.h"
#include "tests/lib/check.h"

enum { SEEDS = 8 };

static float value_at(int i)
{
    return (float)((i * 37 + 11) % 64 - 32) / 16;
}

static void check_mma(int is_bf16)
{
    uint16_t a[16 * 16], b[16 * 8];
    float x[16 * 16], y[16 * 8], c[16 * 8], d[16 * 8];
    for (int i = 0; i < 16 * 16; i++) {
        x[i] = value_at(i);
        a[i] = is_bf16 ? bf16_of_f32(x[i]) : f16_of_f32(x[i]);
    }
    for (int i = 0; i < 16 * 8; i++) {
        y[i] = value_at(3 * i + 1);
        b[i] = is_bf16 ? bf16_of_f32(y[i]) : f16_of_f32(y[i]);
        c[i] = value_at(5 * i);
    }
    exercise_mma(is_bf16, d, a, b, c);
    for (int m = 0; m < 16; m++) {
        for (int n = 0; n < 8; n++) {
            float sum = c[m * 8 + n];
            for (int k = 0; k < 16; k++)
                sum += x[m * 16 + k] * y[k * 8 + n]; /* exact */
            CHECK(d[m * 8 + n] == sum);
        }
    }
}

static void products_of_matrices(void)
{
    for (uint64_t seed = 0; seed < SEEDS; seed++) {
        emulated_set_seed(seed);
        check_mma(0);
        check_mma(1);
    }
}

static void sums_have_the_same_bits_with_every_seed(void)
{
    enum { BLOCKS = 5, THREADS = 256 };
    static float x[BLOCKS * THREADS];
    double out[BLOCKS], first[BLOCKS];
    float largest[BLOCKS];
    for (int i = 0; i < BLOCKS * THREADS; i++)
        x[i] = 1.0f / (float)(i + 1);
    x[THREADS + 77] = NAN;
    for (uint64_t seed = 0; seed < SEEDS; seed++) {
        emulated_set_seed(seed);
        exercise_reduce(out, largest, x, BLOCKS, THREADS);
        for (int b = 0; b < BLOCKS; b++) {
            double sum = 0;
            for (int t = 0; t < THREADS; t++)
                sum += (double)x[b * THREADS + t];
            first[b] = seed ? first[b] : out[b];
            CHECK(b == 1 ? isnan(out[b]) : fabs(out[b] - sum) < 1e-12 * sum);
            CHECK(b == 1 || out[b] == first[b]);
            CHECK(b == 1 ? isnan(largest[b]) : largest[b] == x[b * THREADS]);
        }
    }
}

static void every_thread_of_every_block_runs_once(void)
{
    const unsigned grid[3] = {3, 4, 5}, block[3] = {7, 3, 2};
    uint64_t at[3 * 4 * 5 * 42];
    for (uint64_t seed = 0; seed < SEEDS; seed++) {
        memset(at, 0xff, sizeof(at));
        emulated_set_seed(seed);
        exercise_index(at, grid, block);
        for (uint64_t i = 0; i < 60 * 42; i++)
            CHECK(at[i] == (i / 42 << 32 | i % 42));
    }
}

static void lanes_exchange(void)
{
    int64_t out[32][EXERCISE_LANE_VALUES];
    for (uint64_t seed = 0; seed < SEEDS; seed++) {
        emulated_set_seed(seed);
        exercise_lanes(out[0]);
        for (int l = 0; l < 32; l++) {
            CHECK(out[l][0] == 21);
            CHECK(out[l][1] == 3 * (l % 8 < 2 ? l : l - 2));
            CHECK(out[l][2] == (l > 26 ? l > 30 : l + 5 > 30));
            CHECK(out[l][3] == (l ^ 9));
            CHECK(out[l][4] == 0x49249249);
            CHECK(out[l][5] == 1);
            CHECK(out[l][6] == l / 4 * 4 + (l + 1) % 4);
            CHECK(out[l][7] == 7);
        }
    }
}

static void copies_beside_computation(void)
{
    enum { COUNT = 1000 };
    _Alignas(16) static float x[COUNT], y[COUNT];
    for (uint64_t seed = 0; seed < SEEDS; seed++) {
        for (int i = 0; i < COUNT; i++) {
            x[i] = (float)i;
            y[i] = -1;
        }
        emulated_set_seed(seed);
        exercise_copies(y, x, COUNT);
        for (int i = 0; i < COUNT; i++)
            CHECK(y[i] == (float)i);
    }
}

static void atomics_count(void)
{
    enum { COUNT = 1000 };
    int values[COUNT], counts[8] = {0};
    for (int i = 0; i < COUNT; i++)
        values[i] = i;
    exercise_counts(counts, values, COUNT);
    for (int i = 0; i < 8; i++)
        CHECK(counts[i] == COUNT / 8);
}

struct kept {
    struct emulated_launch launch[2];
    void *stream[2];
    int n;
};

static void keep(void *arg, void *stream, struct emulated_launch launch)
{
    struct kept *kept = arg;
    kept->stream[kept->n] = stream;
    kept->launch[kept->n++] = launch;
}

static void a_hook_keeps_launches_and_runs_them_later(void)
{
    struct kept kept = {.n = 0};
    float y = 0;
    int stream;
    uint64_t launches = emulated_launches();
    emulated_set_hook(keep, &kept);
    exercise_store(&y, 1, &stream);
    exercise_store(&y, 2, NULL);
    emulated_set_hook(NULL, NULL);
    CHECK(y == 0);
    CHECK(kept.n == 2);
    CHECK(kept.stream[0] == (void *)&stream);
    CHECK(strcmp(kept.launch[0].kernel, "store") == 0);
    kept.launch[1].run(&kept.launch[1]);
    CHECK(y == 2);
    kept.launch[0].run(&kept.launch[0]);
    CHECK(y == 1);
    for (int i = 0; i < 2; i++)
        kept.launch[i].free(&kept.launch[i]);
    CHECK(emulated_launches() - launches == 2);
}

int main(int argc, char **argv)
{
    static const struct check_case cases[] = {
        CHECK_CASE(products_of_matrices),
        CHECK_CASE(sums_have_the_same_bits_with_every_seed),
        CHECK_CASE(every_thread_of_every_block_runs_once),
        CHECK_CASE(lanes_exchange),
        CHECK_CASE(copies_beside_computation),
        CHECK_CASE(atomics_count),
        CHECK_CASE(a_hook_keeps_launches_and_runs_them_later),
        {NULL, NULL},
    };
    return check_all(cases, argc, argv);
}
