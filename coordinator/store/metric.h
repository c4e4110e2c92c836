/* One value of a metric: as a program reports it, and as a series keeps it. */
#ifndef STORE_METRIC_H
#define STORE_METRIC_H

#include <stdint.h>

enum {
    METRICS_POINTS_MAX = 8192, /* per series in memory */
    METRICS_POINTS_MIN = 64,   /* per series, where little may be kept */
};

struct metric_sample {
    const char *name;
    uint64_t generation, step;
    int64_t wall_ms;
    double value;
};

struct metric_point {
    uint64_t step;
    double value;
    int64_t wall_ms;
};

#endif
