/* Random numbers by position (worker/rows.h). */
#include <worker/rows.h>

static const uint64_t GOLDEN = 0x9e3779b97f4a7c15u;

static uint64_t mix(uint64_t x)
{
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
    return x ^ (x >> 31);
}

uint64_t wk_noise_key(uint64_t seed, int64_t epoch, int64_t sample)
{
    uint64_t key = mix(seed + GOLDEN);
    key = mix((key ^ (uint64_t)epoch) + GOLDEN);
    return mix((key ^ (uint64_t)sample) + GOLDEN);
}

double wk_noise(uint64_t key, uint64_t index)
{
    return (double)(mix(key + (index + 1) * GOLDEN) >> 11) * 0x1p-53;
}
