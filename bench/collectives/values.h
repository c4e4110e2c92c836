/* What every side of this benchmark reduces, and how it says what it got: same values, same digest,
 * so that "both computed the same" is a comparison of numbers. gloo_peer.py has it in torch's
 * words.
 *
 * A value depends on its place and rank only. Repeated reductions double it until it is infinite,
 * which takes as long as any other value; results are compared before that.
 */
#ifndef BENCH_COLLECTIVES_VALUES_H
#define BENCH_COLLECTIVES_VALUES_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

static inline float value_at(size_t i, int rank)
{
    uint32_t x = (uint32_t)i * 2654435761u + (uint32_t)(rank + 1) * 40503u;
    x ^= x >> 15;
    x *= 2246822519u;
    x ^= x >> 13;
    return (float)x / 4294967296.0f - 0.5f;
}

static inline void values_fill(float *data, size_t count, int rank)
{
    for (size_t i = 0; i < count; i++)
        data[i] = value_at(i, rank);
}

enum { PATTERN_COUNT = 4096 };

/* As a program writes new gradients before each reduction: other bytes in the own core's cache, at
 * little cost of its own. pattern[PATTERN_COUNT] is what values_fill gives. */
static inline void values_rewrite(float *data, size_t count, const float *pattern)
{
    for (size_t at = 0; at < count; at += PATTERN_COUNT) {
        size_t n = count - at < PATTERN_COUNT ? count - at : PATTERN_COUNT;
        memcpy(data + at, pattern, n * sizeof(*data));
    }
}

/* Below this a rewriting is too short to tell. */
enum { REWRITTEN_BYTES_MIN = 16 * 1024 };

/* The sum of the elements' bits, each times an odd number of its place; 63 bits of it. */
static inline uint64_t values_digest(const float *data, size_t count)
{
    uint64_t digest = 0;
    for (size_t i = 0; i < count; i++) {
        uint32_t bits;
        memcpy(&bits, data + i, sizeof(bits));
        digest += bits * (2 * (uint64_t)i + 1);
    }
    return digest & INT64_MAX;
}

#endif
