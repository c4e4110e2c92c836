#include "libworker/cuda/kernels/dropout.h"

#include <math.h>

#include "libworker/cuda/gpu.h"
#include "libworker/cuda/kernels/divider.h"
#include "libworker/cuda/kernels/flat.h"
#include "libworker/graph/keys.h"
#include "libworker/precision/noise.h"

namespace
{

struct dropout_args {
    struct gpu_dropout d;
    struct gpu_value to, from;
    bool add;
    struct divider each;
    uint64_t limit; /* noise below it keeps an element */
    int64_t count;
};

/* The bits at (key, index), as nn/random.h's random_bits. */
static __device__ __forceinline__ uint64_t bits_at(uint64_t key, uint64_t index)
{
    return noise_mix(key + (index + 1) * 0x9e3779b97f4a7c15u);
}

/* The key of the tile that element `at` of a sample is in. */
static __device__ __forceinline__ uint64_t tile_key(const struct gpu_dropout &d, int64_t sample,
                                                    int64_t at)
{
    uint64_t seed = d.keys ? d.keys->seed : d.seed;
    uint64_t first_sample = d.keys ? d.keys->first_sample : d.first_sample;
    uint64_t key = bits_at(seed, first_sample + (uint64_t)sample);
    key = bits_at(bits_at(key, d.block), d.place);
    return bits_at(key, (uint64_t)(at / DROPOUT_TILE * DROPOUT_TILE));
}

/* What is kept of a span. Its elements may be of two tiles or samples. */
static __device__ __forceinline__ void span_drop(const struct dropout_args &a, struct span s,
                                                 float x[SPAN])
{
    int64_t sample = divide(a.each, s.first), at = s.first - sample * a.each.by;
    uint64_t key = tile_key(a.d, sample, at);
    GPU_UNROLL
    for (int j = 0; j < SPAN; j++) {
        if (at == a.each.by) {
            sample++;
            at = 0;
        }
        if (j && at % DROPOUT_TILE == 0)
            key = tile_key(a.d, sample, at);
        bool kept = noise_bits(key, (uint64_t)(at % DROPOUT_TILE)) < a.limit;
        x[j] = kept ? __fdiv_rn(x[j], a.d.keep) : 0.0f;
        at++;
    }
}

__global__ void drop(struct dropout_args a)
{
    for (int64_t at = flat_first(); at < a.count; at += flat_step()) {
        struct span s = flat_span(at, a.count);
        float x[SPAN], before[SPAN];
        span_read(s, a.from, 0, x);
        if (a.d.keep < 1)
            span_drop(a, s, x);
        if (a.add) {
            span_read(s, a.to, 0, before);
            GPU_UNROLL
            for (int j = 0; j < SPAN; j++)
                x[j] += before[j];
        }
        span_write(s, a.to, 0, x);
    }
}

} // namespace

extern "C" void gpu_drop(const struct gpu_dropout *dropout, struct gpu_value to, bool add,
                         struct gpu_value from, cudaStream_t stream)
{
    struct dropout_args a = {*dropout,
                             to,
                             from,
                             add,
                             divider_of(dropout->each),
                             (uint64_t)ceil((double)dropout->keep * 4294967296.0),
                             dropout->samples * dropout->each};
    if (a.count)
        GPU_LAUNCH(drop, flat_grid(a.count), FLAT_THREADS, 0, stream, a);
}
