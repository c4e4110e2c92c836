#include <math.h>

#include "libworker/nn/random.h"

static const double TWO_PI = 6.28318530717958647693;

static uint64_t mix(uint64_t x)
{
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
    return x ^ (x >> 31);
}

uint64_t random_key(uint64_t seed, const char *name)
{
    uint64_t hash = 0xcbf29ce484222325u; /* FNV-1a */
    for (; *name; name++)
        hash = (hash ^ (unsigned char)*name) * 0x100000001b3u;
    return mix(hash ^ mix(seed + 0x9e3779b97f4a7c15u));
}

uint64_t random_bits(uint64_t key, uint64_t index)
{
    return mix(key + (index + 1) * 0x9e3779b97f4a7c15u);
}

double random_uniform(uint64_t key, uint64_t index)
{
    return (double)(random_bits(key, index) >> 11) * 0x1p-53;
}

/* Box and Muller 1958. */
void random_normal_pair(uint64_t key, uint64_t pair, double ret_values[2])
{
    double radius = sqrt(-2 * log(1 - random_uniform(key, 2 * pair)));
    double angle = TWO_PI * random_uniform(key, 2 * pair + 1);
    ret_values[0] = radius * cos(angle);
    ret_values[1] = radius * sin(angle);
}
