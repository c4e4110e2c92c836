/* How long a device's work takes: wall time around it, and the median of some rounds. */
#ifndef GPU_ROUNDS_H
#define GPU_ROUNDS_H

#include <stdlib.h>
#include <time.h>

static inline double rounds_now_ms(void)
{
    struct timespec t;
    (void)clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e3 + (double)t.tv_nsec * 1e-6;
}

static inline int rounds_by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Sorts. */
static inline double rounds_median(double *ms, int rounds)
{
    qsort(ms, (size_t)rounds, sizeof(*ms), rounds_by_value);
    return ms[rounds / 2];
}

#endif
