/* A seeded permutation of 0…size-1 without memory, which can be entered anywhere. It is a Feistel
 * network over the next even number of bits, repeated until the result is inside the range. Source:
 * Black and Rogaway 2002, "Ciphers with arbitrary finite domains" (the generalised Feistel and
 * cycle walking methods). Not a cipher: six rounds of a mixing function are enough to shuffle, not
 * to hide. Pure; any thread. */
#ifndef DATA_PERMUTE_H
#define DATA_PERMUTE_H

#include <stdint.h>

enum { PERMUTATION_ROUNDS = 6 };

struct permutation {
    uint64_t size;
    uint32_t half_bits;
    uint64_t keys[PERMUTATION_ROUNDS];
};

/* Each (seed, epoch) is another order. size ≥ 1 and ≤ 2^62. */
void permutation_init(struct permutation *permutation, uint64_t size, uint64_t seed,
                      uint64_t epoch);

/* The element at place `index` < size. At most four network passes on average. */
uint64_t permutation_at(const struct permutation *permutation, uint64_t index);

#endif
