#include <stdio.h>
#include <string.h>

#include <worker/graph.h>

#include "libworker/graph/dim.h"

struct dim dim_of(int64_t code)
{
    if (code == WK_SAMPLES)
        return (struct dim){.fixed = 1, .samples = 1};
    if (code == WK_LENGTH)
        return (struct dim){.fixed = 1, .length = 1};
    if (code == WK_RANKS)
        return (struct dim){.fixed = 1, .ranks = 1};
    return dim_fixed(code);
}

struct dim dim_times(struct dim a, struct dim b)
{
    return (struct dim){.fixed = a.fixed * b.fixed,
                        .samples = (uint8_t)(a.samples + b.samples),
                        .length = (uint8_t)(a.length + b.length),
                        .ranks = (uint8_t)(a.ranks + b.ranks)};
}

struct dim dim_over(struct dim a, struct dim b)
{
    if (!b.fixed || a.fixed % b.fixed || a.samples < b.samples || a.length < b.length ||
        a.ranks < b.ranks)
        return (struct dim){0};
    return (struct dim){.fixed = a.fixed / b.fixed,
                        .samples = (uint8_t)(a.samples - b.samples),
                        .length = (uint8_t)(a.length - b.length),
                        .ranks = (uint8_t)(a.ranks - b.ranks)};
}

static int64_t power(int64_t base, int exponent)
{
    int64_t product = 1;
    for (int i = 0; i < exponent; i++)
        product *= base;
    return product;
}

int64_t dim_size(struct dim d, const struct sizes *sizes)
{
    int64_t ranks = sizes->ranks ? sizes->ranks : 1;
    return d.fixed * power(sizes->samples, d.samples) * power(sizes->length, d.length) *
           power(ranks, d.ranks);
}

/* "*name" at the end of ret, `times` of them, at most two. */
static void append(char ret[DIM_TEXT_MAX], const char *name, int times)
{
    for (int i = 0; i < times && i < 2; i++) {
        size_t used = strlen(ret);
        (void)snprintf(ret + used, DIM_TEXT_MAX - used, "%s%s", used ? "*" : "", name);
    }
}

const char *dim_text(struct dim d, char ret[DIM_TEXT_MAX])
{
    *ret = 0;
    if (d.fixed != 1 || dim_is_fixed(d))
        (void)snprintf(ret, DIM_TEXT_MAX, "%lld", (long long)d.fixed);
    append(ret, "ranks", d.ranks);
    append(ret, "samples", d.samples);
    append(ret, "length", d.length);
    return ret;
}
