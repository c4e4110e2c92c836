#include <assert.h>

#include "libworker/data/permute.h"

/* The finaliser of splitmix64 (Steele, Lea and Flood 2014). */
static uint64_t mix(uint64_t x)
{
    x += 0x9e3779b97f4a7c15u;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
    return x ^ (x >> 31);
}

void permutation_init(struct permutation *permutation, uint64_t size, uint64_t seed, uint64_t epoch)
{
    assert(size >= 1 && size <= (uint64_t)1 << 62);
    permutation->size = size;
    permutation->half_bits = 1;
    while ((size - 1) >> 2 * permutation->half_bits)
        permutation->half_bits++;
    uint64_t key = mix(seed) ^ mix(mix(epoch) + 1);
    for (int i = 0; i < PERMUTATION_ROUNDS; i++)
        permutation->keys[i] = key = mix(key + (uint64_t)i);
}

static uint64_t pass(const struct permutation *permutation, uint64_t index)
{
    uint64_t mask = ((uint64_t)1 << permutation->half_bits) - 1;
    uint64_t left = index >> permutation->half_bits, right = index & mask;
    for (int i = 0; i < PERMUTATION_ROUNDS; i++) {
        uint64_t next = left ^ (mix(right ^ permutation->keys[i]) & mask);
        left = right;
        right = next;
    }
    return left << permutation->half_bits | right;
}

uint64_t permutation_at(const struct permutation *permutation, uint64_t index)
{
    assert(index < permutation->size);
    /* The network permutes the larger range, so a walk from inside returns inside. */
    do
        index = pass(permutation, index);
    while (index >= permutation->size);
    return index;
}
