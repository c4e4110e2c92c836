#include "bench/collectives/timing.h"

#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

double now_us(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e6 + (double)t.tv_nsec * 1e-3;
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

double quantile(double *values, size_t n, double q)
{
    size_t at = (size_t)((double)n * q);
    qsort(values, n, sizeof(*values), by_value);
    return values[at < n ? at : n - 1];
}

int calls_of(double us)
{
    return us * CALLS_MAX < BATCH_US ? CALLS_MAX : (int)(BATCH_US / us) + 2;
}

void report(const char *who, size_t bytes, double us)
{
    printf("{\"who\": \"%s\", \"bytes\": %zu, \"us\": %.4f}\n", who, bytes, us);
    fflush(stdout);
}

void report_rewritten(const char *who, size_t bytes, double us)
{
    printf("{\"who\": \"%s, rewritten\", \"bytes\": %zu, \"us\": %.4f}\n", who, bytes, us);
    fflush(stdout);
}

void bind_to_core(int rank)
{
    cpu_set_t all, one;
    int seen = 0;
    CPU_ZERO(&one);
    if (sched_getaffinity(0, sizeof(all), &all) != 0 || CPU_COUNT(&all) < 2)
        return;
    for (int c = 0; c < CPU_SETSIZE; c++)
        if (CPU_ISSET(c, &all) && seen++ == rank % CPU_COUNT(&all))
            CPU_SET(c, &one);
    (void)sched_setaffinity(0, sizeof(one), &one);
}
