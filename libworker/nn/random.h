/* Random numbers by position: the value at (key, index) is a hash, so any element can be drawn
 * without those before it, in any order, on any rank. Pure; not for secrets.
 * Source: Salmon et al. 2011 for the idea; the mixer is SplitMix64 (Steele et al. 2014).
 */
#ifndef NN_RANDOM_H
#define NN_RANDOM_H

#include <stdint.h>

/* A stream of its own for each name under one seed. */
uint64_t random_key(uint64_t seed, const char *name);

uint64_t random_bits(uint64_t key, uint64_t index);

/* In [0, 1). */
double random_uniform(uint64_t key, uint64_t index);

/* Two independent standard normal values, those of indices 2 * pair and 2 * pair + 1. */
void random_normal_pair(uint64_t key, uint64_t pair, double ret_values[2]);

#endif
