#include <stdio.h>

#include <worker/graph.h>

#include "libworker/graph/dim.h"

struct dim dim_of(int64_t code)
{
    if (code == WK_SAMPLES)
        return (struct dim){.fixed = 1, .samples = 1};
    if (code == WK_LENGTH)
        return (struct dim){.fixed = 1, .length = 1};
    return dim_fixed(code);
}

struct dim dim_times(struct dim a, struct dim b)
{
    return (struct dim){.fixed = a.fixed * b.fixed,
                        .samples = (uint8_t)(a.samples + b.samples),
                        .length = (uint8_t)(a.length + b.length)};
}

struct dim dim_over(struct dim a, struct dim b)
{
    if (!b.fixed || a.fixed % b.fixed || a.samples < b.samples || a.length < b.length)
        return (struct dim){0};
    return (struct dim){.fixed = a.fixed / b.fixed,
                        .samples = (uint8_t)(a.samples - b.samples),
                        .length = (uint8_t)(a.length - b.length)};
}

int64_t dim_size(struct dim d, const struct sizes *sizes)
{
    int64_t size = d.fixed;
    for (int i = 0; i < d.samples; i++)
        size *= sizes->samples;
    for (int i = 0; i < d.length; i++)
        size *= sizes->length;
    return size;
}

const char *dim_text(struct dim d, char ret[DIM_TEXT_MAX])
{
    static const char *const factors[3] = {"", "samples", "samples*samples"};
    static const char *const lengths[3] = {"", "length", "length*length"};
    const char *samples = factors[d.samples < 3 ? d.samples : 2];
    const char *length = lengths[d.length < 3 ? d.length : 2];
    char number[24] = "";
    if (d.fixed != 1 || (!*samples && !*length))
        snprintf(number, sizeof(number), "%lld", (long long)d.fixed);
    snprintf(ret, DIM_TEXT_MAX, "%s%s%s%s%s", number, *number && *samples ? "*" : "", samples,
             (*number || *samples) && *length ? "*" : "", length);
    return ret;
}
