/* Seeded random numbers: xoshiro256** (Blackman and Vigna, "Scrambled linear pseudorandom number
 * generators", 2021), its state filled by splitmix64. Same seed, same numbers on every machine. Not
 * for secrets: env's rng_source is for those. Plain data; one thread at a time.
 */
#ifndef BASE_RNG_H
#define BASE_RNG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct rng {
    uint64_t state[4];
};

void rng_seed(struct rng *rng, uint64_t seed);

/* An independent generator drawn from this one: one per node, per stream. */
void rng_fork(struct rng *rng, struct rng *ret_child);

uint64_t rng_next(struct rng *rng);

/* Uniform in 0..bound-1 without bias (Lemire 2019); bound > 0. */
uint64_t rng_below(struct rng *rng, uint64_t bound);

/* Uniform in min..max, both included; min <= max. */
int64_t rng_between(struct rng *rng, int64_t min, int64_t max);

double rng_double(struct rng *rng);         /* [0, 1), 53 bits */
bool rng_chance(struct rng *rng, double p); /* true with probability p */
void rng_fill(struct rng *rng, void *ret_bytes, size_t count);

/* Fisher and Yates over `count` items of `size` bytes, size <= RNG_SHUFFLE_ITEM_MAX_BYTES. */
enum { RNG_SHUFFLE_ITEM_MAX_BYTES = 256 };
void rng_shuffle(struct rng *rng, void *items, size_t count, size_t size);

#endif
