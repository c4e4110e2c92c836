#include "common/base/rng.h"

#include <string.h>

#include "common/base/assert.h"

/* Steele, Lea and Flood, "Fast splittable pseudorandom number generators", 2014. */
static uint64_t splitmix64(uint64_t *state)
{
    uint64_t z = *state += 0x9e3779b97f4a7c15u;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return z ^ z >> 31;
}

void rng_seed(struct rng *rng, uint64_t seed)
{
    for (int i = 0; i < 4; i++)
        rng->state[i] = splitmix64(&seed);
}

void rng_fork(struct rng *rng, struct rng *ret_child)
{
    rng_seed(ret_child, rng_next(rng));
}

static uint64_t rotate_left(uint64_t x, int by)
{
    return x << by | x >> (64 - by);
}

uint64_t rng_next(struct rng *rng)
{
    uint64_t *s = rng->state;
    uint64_t result = rotate_left(s[1] * 5, 7) * 9;
    uint64_t t = s[1] << 17;
    s[2] ^= s[0];
    s[3] ^= s[1];
    s[1] ^= s[2];
    s[0] ^= s[3];
    s[2] ^= t;
    s[3] = rotate_left(s[3], 45);
    return result;
}

uint64_t rng_below(struct rng *rng, uint64_t bound)
{
    insist(bound > 0);
    __uint128_t product = (__uint128_t)rng_next(rng) * bound;
    if ((uint64_t)product < bound) {
        uint64_t unfair = (0 - bound) % bound; /* 2^64 mod bound: draws below it are one too many */
        while ((uint64_t)product < unfair)
            product = (__uint128_t)rng_next(rng) * bound;
    }
    return (uint64_t)(product >> 64);
}

int64_t rng_between(struct rng *rng, int64_t min, int64_t max)
{
    insist(min <= max);
    uint64_t span = (uint64_t)max - (uint64_t)min;
    uint64_t offset = span == UINT64_MAX ? rng_next(rng) : rng_below(rng, span + 1);
    return (int64_t)((uint64_t)min + offset);
}

double rng_double(struct rng *rng)
{
    return (double)(rng_next(rng) >> 11) * 0x1p-53;
}

bool rng_chance(struct rng *rng, double p)
{
    return rng_double(rng) < p;
}

void rng_fill(struct rng *rng, void *ret_bytes, size_t count)
{
    char *out = ret_bytes;
    while (count) {
        uint64_t bits = rng_next(rng);
        size_t part = count < sizeof(bits) ? count : sizeof(bits);
        memcpy(out, &bits, part);
        out += part;
        count -= part;
    }
}

void rng_shuffle(struct rng *rng, void *items, size_t count, size_t size)
{
    insist(size <= RNG_SHUFFLE_ITEM_MAX_BYTES);
    char spare[RNG_SHUFFLE_ITEM_MAX_BYTES];
    char *base = items;
    for (size_t i = count; i > 1; i--) {
        size_t j = rng_below(rng, i);
        if (j == i - 1)
            continue;
        memcpy(spare, base + j * size, size);
        memcpy(base + j * size, base + (i - 1) * size, size);
        memcpy(base + (i - 1) * size, spare, size);
    }
}
